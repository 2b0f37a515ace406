import { expect, test } from "vitest";
import { idleWaitMs, queueTailMs } from "../bench/stalls.ts";

const SECONDS_60 = 60_000;

test("a stall of 20 ms in 10 s is one of 10 ms to the thousandth moment that waits longest", () => {
  expect(idleWaitMs({ totalMs: 10_000, stalls: [{ fromMs: 100, toMs: 120 }] }, 0.999)).toBeCloseTo(10, 9);
  expect(idleWaitMs({ totalMs: 10_000, stalls: [] }, 0.999)).toBe(0);
});

test("of a CPU that is always there, and nearly idle, each request takes its own time", () => {
  expect(queueTailMs({ totalMs: SECONDS_60, stalls: [] }, 1, 2, 0.5)).toBeCloseTo(2, 9);
});

test("the queue behind a stall is as long as the load makes it", () => {
  const [ratePerS, serviceMs, stallMs] = [28_000, 0.032, 50];
  const load = (ratePerS / 1000) * serviceMs;
  const tailMs = queueTailMs(
    { totalMs: SECONDS_60, stalls: [{ fromMs: 1000, toMs: 1000 + stallMs }] },
    ratePerS,
    serviceMs,
    0.999,
  );
  // Whoever comes s after it began waits stallMs - (1 - load) s: of all moments a thousandth waits longer than this.
  const expectedMs = stallMs - (1 - load) * 0.001 * SECONDS_60;
  expect(Math.abs(tailMs - expectedMs)).toBeLessThan(1.5);
  expect(queueTailMs({ totalMs: SECONDS_60, stalls: [] }, ratePerS, serviceMs, 0.999)).toBeLessThan(2);
});

test("work that a stall cuts in two goes on after it", () => {
  // Twenty requests or so, each of 10 ms, on a CPU of which 5 ms in each 10 are there: each takes about twice its time.
  const stalls = Array.from({ length: 6000 }, (_, index) => ({ fromMs: index * 10 + 5, toMs: index * 10 + 10 }));
  const medianMs = queueTailMs({ totalMs: SECONDS_60, stalls }, 0.3, 10, 0.5);
  expect(medianMs).toBeGreaterThanOrEqual(15);
  expect(medianMs).toBeLessThanOrEqual(25);
});
