import { expect, test } from "vitest";
import { EmbeddingError } from "./embedding-error.ts";
import { UpdateGate } from "./update-gate.ts";

test("counts updates, and lets a gather through at once when none is made", () => {
  const gate = new UpdateGate();
  let reads = 0;
  expect(gate.read(() => ++reads + 10)).toBe(11);
  expect([gate.update(() => {}), gate.update(() => {})]).toEqual([1, 2]);
  expect(new UpdateGate(gate.buffer).update(() => {})).toBe(3);
});

test("makes a gather again that an update has fallen into, and keeps updates out of the fourth", () => {
  const gate = new UpdateGate();
  const writer = new UpdateGate(gate.buffer);
  let reads = 0;
  const result = gate.read(() => {
    reads++;
    if (reads <= 3) writer.update(() => {});
    return reads;
  });
  expect([result, reads]).toEqual([4, 4]);
  expect(writer.update(() => {})).toBe(4);
});

test("is free again after an update or a gather that throws", () => {
  const gate = new UpdateGate();
  const fail = () => {
    throw new Error("no");
  };
  expect(() => gate.update(fail)).toThrow("no");
  expect(() => gate.read(fail)).toThrow("no");
  expect(gate.read(() => 7)).toBe(7);
  expect(gate.update(() => {})).toBe(2);
});

/** A gate as a terminated thread left it, and the error that others get. */
function abandonedGate(sequence: number) {
  const { buffer } = new UpdateGate();
  new Int32Array(buffer).set([sequence, 1]);
  const error = new EmbeddingError(
    "interrupted_update",
    "a thread has kept others from the tables for 0.001 s, expected an end: it was terminated inside update() or gather(), and rows may be half written; open the store anew",
  );
  return { gate: new UpdateGate(buffer, 1), words: new Int32Array(buffer), error };
}

test("refuses gathers and updates after a thread was terminated inside an update", () => {
  const { gate, words, error } = abandonedGate(1);
  expect(() => gate.read(() => 7)).toThrow(error);
  expect(() => gate.update(() => {})).toThrow(error);
  expect([...words]).toEqual([1, 1]);
});

test("refuses updates, but no gathers, after a thread was terminated inside a gather that held the lock", () => {
  const { gate, words, error } = abandonedGate(2);
  expect(gate.read(() => 7)).toBe(7);
  expect(() => gate.update(() => {})).toThrow(error);
  expect([...words]).toEqual([2, 1]);
});
