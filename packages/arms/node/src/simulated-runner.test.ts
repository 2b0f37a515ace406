import { expect, test } from "vitest";
import type { SlotBuffers } from "./device-messages.ts";
import { SimulatedRunner } from "./simulated-runner.ts";

const shared = (...values: number[]): Float32Array<SharedArrayBuffer> => {
  const array = new Float32Array(new SharedArrayBuffer(values.length * 4));
  array.set(values);
  return array;
};
const weights = { w: Float32Array.of(1, 2), v: Float32Array.of(1, 1, 1, 1, 0.5) };

function buffers(): SlotBuffers {
  return {
    bucket: 4,
    dense: shared(0, 0, 1, -1, 9, 9, 9, 9),
    pooled: shared(0, 0, 0, 0, 0, 1, 2, 3, 4, -18, ...Array.from({ length: 10 }, () => 9)),
    scores: shared(-1, -1, -1, -1),
  };
}

test("scores are sigmoid(w · dense + v · pooled), of the asked examples only", async () => {
  const slot = buffers();
  await new SimulatedRunner(weights, { now: () => 0, sleep: () => undefined }).run(slot, 2);
  expect([...slot.scores]).toEqual([0.5, 0.5, -1, -1]);
});

test.each([
  // [milliseconds that computing took, sleep that is left of 350 µs + 4 × 4 µs]
  [0, [0.366]],
  [0.25, [0.116]],
  [0.366, []],
  [1, []],
])("after %f ms of computing it sleeps %j", async (took, expected) => {
  const times = [10, 10 + took];
  const slept: number[] = [];
  const clock = { now: () => times.shift() ?? Number.NaN, sleep: (ms: number) => void slept.push(ms) };
  await new SimulatedRunner(weights, clock).run(buffers(), 1);
  expect(slept).toEqual(expected.map((ms) => expect.closeTo(ms, 9)));
});
