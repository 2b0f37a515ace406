import type { RingShape } from "./ring-protocol.ts";
import { buryProducer, CELL_WORDS, DEAD, join, JOINED, slotAt, SLOT_WORDS, wakeConsumer } from "./ring-protocol.ts";

// A producer has a number, a bit in the ring's words, and an id, which also says how often the number was given out
// before: of a producer that was buried nothing can be done to the next one with its number.
//
// Invariants: a number that is dead stays so until it is buried; only the consumer frees it, between two batches, as it alone
// goes by who is dead; a number that is free has nothing in any slot.

/** A bit for each dead producer whose burial is over. */
const BURIED = 0;
/** For each number how often it was freed. */
const FREED = 1;
export const NUMBERS_WORDS = 32;

const NUMBERS = 32;

/** The number in an id: what `ring-protocol.ts` knows a producer by. */
export function numberOf(id: number): number {
  return id % NUMBERS;
}

/** Takes a free number. Returns an id, or -1. */
export function takeNumber(control: Int32Array, ring: RingShape, numbers: Int32Array): number {
  const number = join(control, ring);
  return number < 0 ? -1 : Atomics.load(numbers, FREED + number) * NUMBERS + number;
}

/**
 * As `buryProducer`, once only for each id; then the consumer frees the number. Not by two threads at a time of one id; by another
 * that has ended on its way it may be begun.
 */
export function buryId(control: Int32Array, ring: RingShape, numbers: Int32Array, id: number): void {
  const number = numberOf(id);
  // In this order: what is no longer marked as buried was counted as freed before.
  const isBuried = (Atomics.load(numbers, BURIED) & (1 << number)) !== 0;
  const isGone = Atomics.load(numbers, FREED + number) * NUMBERS + number !== id;
  if (isBuried || isGone) {
    return;
  }
  buryProducer(control, ring, number);
  Atomics.or(numbers, BURIED, 1 << number);
  wakeConsumer(control);
}

/** Whether there are numbers to free. */
export function hasBuried(numbers: Int32Array): boolean {
  return Atomics.load(numbers, BURIED) !== 0;
}

/** As `hasBuried`, from memory that may be some steps behind: no atomic operation for a batch. */
export function mayHaveBuried(numbers: Int32Array): boolean {
  return numbers[BURIED] !== 0;
}

/** Consumer: frees the numbers of those that are buried. Never between `takeParticipants` and the end of `publish`. */
export function freeBuried(control: Int32Array, ring: RingShape, numbers: Int32Array): void {
  const buried = Atomics.load(numbers, BURIED);
  for (let number = 0; number < ring.producers; number += 1) {
    const bit = 1 << number;
    if ((buried & bit) === 0) {
      continue;
    }
    for (let slot = 0; slot < ring.slots; slot += 1) {
      // Rows of its that are missing are missed by nobody then: a batch is complete when nobody has an attempt in progress.
      Atomics.store(control, slotAt(ring, slot) + SLOT_WORDS + number * CELL_WORDS, 0);
    }
    Atomics.add(numbers, FREED + number, 1);
    Atomics.and(numbers, BURIED, ~bit);
    Atomics.and(control, DEAD, ~bit);
    // Last: from here on it is another's.
    Atomics.and(control, JOINED, ~bit);
  }
}
