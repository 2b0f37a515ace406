import type { RingShape } from "../../src/shared/ring-protocol.ts";
import { controlWords } from "../../src/shared/ring-protocol.ts";
import { NUMBERS_WORDS } from "../../src/shared/producer-numbers.ts";

/** Hints: who wakes a consumer that waits for more rows. */
export const WAKES_NONE = 0;
export const WAKES_HURRIED = 1;
export const WAKES_ALL = 2;
/** What is said of a row: whose size is not said; an item; one in a hurry. */
export const UNSAID = 0;
export const SAID = 1;
export const SAID_HURRIED = 2;

const HINT = 0;

/** What threads share, as parts of one memory: only where a part begins is asked for, as the state that is changed is the model's. */
export interface ModelMemory {
  readonly control: Int32Array;
  /** Of `producer-numbers.ts`. */
  readonly numbers: Int32Array;
  /** The hint, then for each row of each slot what is said of its item. */
  readonly rows: Int32Array;
}

export function memoryOf(ring: RingShape): ModelMemory {
  const words = controlWords(ring);
  const rows = 1 + ring.slots * ring.rows;
  const buffer = new ArrayBuffer((words + NUMBERS_WORDS + rows) * Int32Array.BYTES_PER_ELEMENT);
  const part = (from: number, length: number): Int32Array =>
    new Int32Array(buffer, from * Int32Array.BYTES_PER_ELEMENT, length);
  return {
    control: part(0, words),
    numbers: part(words, NUMBERS_WORDS),
    rows: part(words + NUMBERS_WORDS, rows),
  };
}

/** Where, in `rows`, the hint is. */
export function hintAt(): number {
  return HINT;
}

/** and what is said of a row. */
export function saidAt(ring: RingShape, slot: number, row: number): number {
  return 1 + slot * ring.rows + row;
}
