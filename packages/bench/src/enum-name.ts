/** Name of an enum's value, or its number where it has none. */
export function enumName(names: Readonly<Record<string, number>>, value: number): string {
  return Object.entries(names).find(([, number]) => number === value)?.[0] ?? String(value);
}
