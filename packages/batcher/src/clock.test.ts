import { expect, test, vi } from "vitest";
import { systemClock } from "./clock.ts";

test.each([
  { delayMs: 0, precise: true },
  { delayMs: 0.2, precise: true },
  { delayMs: 2.3, precise: true },
  { delayMs: 1, precise: false },
])(
  "a timer of $delayMs ms (precise: $precise) does not fire early, nor before it is returned",
  async ({ delayMs, precise }) => {
    const startMs = systemClock.now();
    let returned = false;
    const [elapsedMs, wasReturned] = await new Promise<[number, boolean]>((resolve) => {
      systemClock.schedule(() => resolve([systemClock.now() - startMs, returned]), delayMs, precise);
      returned = true;
    });
    expect(wasReturned).toBe(true);
    // Node's own timers count in whole milliseconds and may be up to one early; the batcher arms them again.
    expect(elapsedMs).toBeGreaterThanOrEqual(precise ? delayMs - 0.01 : 0);
  },
);

test.each([true, false])("a cancelled timer (precise: %s) does not fire", async (precise) => {
  let fired = false;
  const handle = systemClock.schedule(() => (fired = true), 0.1, precise);
  systemClock.cancel(handle);
  await new Promise<void>((resolve) => {
    systemClock.schedule(resolve, 2, precise);
  });
  expect(fired).toBe(false);
});

test.each([true, false])("a timer of more than 24 days (precise: %s) waits them out", (precise) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const setTimer = vi.spyOn(globalThis, "setTimeout");
  try {
    let fired = 0;
    systemClock.schedule(() => (fired += 1), 2 ** 31 + 1000, precise);
    vi.advanceTimersByTime(2 ** 31);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(1001);
    expect([fired, vi.getTimerCount()]).toEqual([1, 0]);
    // Node's own go off at once beyond that, with a warning.
    expect(Math.max(...setTimer.mock.calls.map(([, delayMs = 0]) => delayMs))).toBeLessThan(2 ** 31);
  } finally {
    setTimer.mockRestore();
    vi.useRealTimers();
  }
});
