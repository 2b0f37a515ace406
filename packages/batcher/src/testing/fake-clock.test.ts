import { expect, test } from "vitest";
import { FakeClock } from "./index.ts";

test("timers fire at their time, in order, also those set by timers", async () => {
  const clock = new FakeClock();
  const fired: [string, number][] = [];
  const note = (name: string) => () => fired.push([name, clock.now()]);
  clock.schedule(note("c"), 3);
  clock.schedule(note("a"), 1);
  clock.schedule(note("b"), 1);
  clock.schedule(() => clock.schedule(note("d"), 1), 1);
  await clock.advanceMs(2.5);
  expect(fired).toEqual([
    ["a", 1],
    ["b", 1],
    ["d", 2],
  ]);
  expect(clock.now()).toBe(2.5);
  expect(clock.pendingTimers).toBe(1);
  await clock.advanceMs(1);
  expect(fired.at(-1)).toEqual(["c", 3]);
});

test("cancelled timers do not fire", async () => {
  const clock = new FakeClock();
  let fired = 0;
  const handle = clock.schedule(() => (fired += 1), 1);
  clock.cancel(handle);
  expect(clock.pendingTimers).toBe(0);
  expect(await clock.next()).toBe(false);
  expect(fired).toBe(0);
});

test("promises settle before time moves on", async () => {
  const clock = new FakeClock();
  const seen: number[] = [];
  clock.schedule(() => {
    void (async () => {
      for (let i = 0; i < 5; i += 1) {
        await Promise.resolve();
      }
      seen.push(clock.now());
    })();
  }, 1);
  clock.schedule(() => seen.push(-clock.now()), 2);
  await clock.advanceMs(2);
  expect(seen).toEqual([1, -2]);
});

test("many timers in random order fire sorted", async () => {
  const clock = new FakeClock();
  const fired: number[] = [];
  let state = 12345;
  const delays = Array.from({ length: 500 }, () => (state = (state * 48271) % 2147483647) % 1000);
  for (const delay of delays) {
    clock.schedule(() => fired.push(delay), delay);
  }
  await clock.advanceMs(1000);
  expect(fired).toEqual(delays.toSorted((a, b) => a - b));
});
