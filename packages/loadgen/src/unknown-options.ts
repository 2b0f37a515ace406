/**
 * What is wrong with the names of options: from JavaScript one that is misspelt would be no option given, and the default would stay in
 * its place without a word.
 */
export function unknownOptions(options: object, known: readonly string[]): string[] {
  return Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => `there is no option ${name}, expected only ${known.join(", ")}`);
}
