/** An item in a word of a row: 0 is none. */
export const CODE_MASK = 0xff;
const ITEMS = 8;

export function itemCode(producer: number, item: number): number {
  return producer * ITEMS + item + 1;
}

/** -1 of none. */
export function producerOf(code: number): number {
  return Math.floor((code - 1) / ITEMS);
}
