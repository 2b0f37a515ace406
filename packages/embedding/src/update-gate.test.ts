import { expect, test } from "vitest";
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
