import { BatcherError } from "./batcher-error.ts";

/**
 * What is wrong with the names of options: from JavaScript one that is misspelt would be no option given, and the default would stay in
 * its place without a word.
 */
export function unknownOptions(options: object, known: readonly string[]): string[] {
  return Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => `there is no option ${name}, expected only ${known.join(", ")}`);
}

/** Throws `invalid_options` if there are any. */
export function refuseUnknown(options: object, known: readonly string[]): void {
  const problems = unknownOptions(options, known);
  if (problems.length > 0) {
    throw new BatcherError("invalid_options", problems.join("; "));
  }
}
