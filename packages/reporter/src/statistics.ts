/** The middle value, or the mean of the two in the middle. Nulls are left out; null if nothing is left. */
export function median(values: readonly (number | null | undefined)[]): number | null {
  const sorted = present(values).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) return null;
  const lower = sorted[middle - 1];
  return sorted.length % 2 === 1 || lower === undefined ? upper : (lower + upper) / 2;
}

/** Smallest and largest value; null if there is none. */
export function range(values: readonly (number | null | undefined)[]): { min: number; max: number } | null {
  const numbers = present(values);
  return numbers.length === 0 ? null : { min: Math.min(...numbers), max: Math.max(...numbers) };
}

function present(values: readonly (number | null | undefined)[]): number[] {
  return values.filter((value) => value !== null && value !== undefined);
}
