/** Batch sizes of a device by default: the powers of two 1 … 4096. A batch is padded to the next one. */
export const DEFAULT_BUCKETS: readonly number[] = Array.from({ length: 13 }, (_, power) => 2 ** power);

/** All that is wrong with `value` as the buckets of a bundle, one line each. */
export function bucketProblems(value: unknown): string[] {
  if (!Array.isArray(value) || value.length === 0) return ["buckets: expected a list of at least one batch size"];
  const isBucket = (size: unknown): size is number =>
    Number.isInteger(size) && (size as number) >= 1 && (size as number) <= 2 ** 20;
  if (!value.every(isBucket)) return [`buckets: expected integers from 1 to ${2 ** 20}, got ${JSON.stringify(value)}`];
  if (value.some((size, index) => index > 0 && size <= (value[index - 1] as number))) {
    return [`buckets: expected each to be larger than the one before, got ${JSON.stringify(value)}`];
  }
  return [];
}
