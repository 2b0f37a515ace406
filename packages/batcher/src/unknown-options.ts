import { BatcherError } from "./batcher-error.ts";

/**
 * What is wrong with the names of options: from JavaScript one that is misspelt would be no option given, and the default would stay in
 * its place without a word.
 */
export function unknownOptions(options: object, known: readonly string[]): string[] {
  return Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => {
      const [nearest] = known.toSorted((a, b) => distance(name, a) - distance(name, b));
      return `there is no option ${name} (the nearest is ${nearest})`;
    });
}

/** Throws `invalid_options` if there are any. */
export function refuseUnknown(options: object, known: readonly string[]): void {
  const problems = unknownOptions(options, known);
  if (problems.length > 0) {
    throw new BatcherError("invalid_options", problems.join("; "));
  }
}

/** How many letters must be put in, left out or changed to make one of the other, whatever their case. */
function distance(from: string, to: string): number {
  const [a, b] = [from.toLowerCase(), to.toLowerCase()];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      const changed = (row[j] as number) + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
