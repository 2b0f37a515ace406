import { describe, expect, test } from "vitest";
import type { Backend } from "./backend.ts";
import type { SharedFloat32Array } from "./device.ts";
import { warmUp } from "./warm-up.ts";

/** A backend whose batch of n takes `costMs(n)` on a clock that nothing else moves. */
function fakeBackend(costMs: (bucket: number) => number) {
  let nowMs = 1000;
  const ran: { bucket: number; lengths: number[] }[] = [];
  const backend: Backend<SharedFloat32Array> = {
    name: "fake",
    platform: "cpu",
    inputs: [{ name: "x", width: [2, 3] }],
    outputs: [{ name: "y", width: [] }],
    precision: { name: "float32", quantizedWeights: 0 },
    memory: { kind: "host" },
    addBucket: () => {},
    wrap: (_spec, _bucket, view) => view,
    run: () => {
      throw new Error("warm-up must warm");
    },
    warm: (bucket, inputs, outputs) => {
      ran.push({ bucket, lengths: [...inputs, ...outputs].map(({ length }) => length) });
      nowMs += costMs(bucket);
    },
    close: async () => {},
  };
  return { backend, ran, now: () => nowMs };
}

describe("warm-up", () => {
  test("runs every bucket once, the smallest first, and reports each", async () => {
    const { backend, ran, now } = fakeBackend((bucket) => bucket);
    const warmed: [number, number][] = [];
    const onWarmed = (bucket: number, done: number): unknown => warmed.push([bucket, done]);
    const report = await warmUp(backend, { buckets: [1, 2, 8], budgetMs: Number.POSITIVE_INFINITY, onWarmed, now });
    expect(ran).toEqual([
      { bucket: 1, lengths: [6, 1] },
      { bucket: 2, lengths: [12, 2] },
      { bucket: 8, lengths: [48, 8] },
    ]);
    expect(warmed).toEqual([
      [1, 1],
      [2, 2],
      [8, 3],
    ]);
    expect(report).toEqual({ warmed: [1, 2, 8], skipped: [], elapsedMs: 11 });
  });

  // 1 ms an example: 1 + 2 + 4 + 8 = 15, and the bucket of 8 is expected to take 8.
  test.each([
    [15, [1, 2, 4, 8], []],
    [14.9, [1, 2, 4], [8]],
    [7, [1, 2, 4], [8]],
    [3, [1, 2], [4, 8]],
    [0, [1], [2, 4, 8]],
  ])("leaves out what would go over a budget of %d ms", async (budgetMs, warmed, skipped) => {
    const { backend, now } = fakeBackend((bucket) => bucket);
    const report = await warmUp(backend, { buckets: [1, 2, 4, 8], budgetMs, onWarmed: () => undefined, now });
    expect(report).toMatchObject({ warmed, skipped });
  });
});
