import { expect, test } from "vitest";
import { nowMicros } from "./monotonic-clock.ts";
import { ThreadPacer } from "./pacer.ts";

function shared(times: readonly number[]): Float64Array<SharedArrayBuffer> {
  const schedule = new Float64Array(new SharedArrayBuffer(times.length * 8));
  schedule.set(times);
  return schedule;
}

test("wakes after every time of the schedule has come, and never for one to come", async () => {
  const schedule = shared([0, 100, 200, 5000, 5001, 20_000]);
  const pacer = await ThreadPacer.prepare(schedule);
  const startMicros = nowMicros();
  for (let i = 0; i < schedule.length; i++) schedule[i] = (schedule[i] as number) + startMicros;
  let next = 0;
  let wakeUps = 0;
  await new Promise<void>((resolve) => {
    pacer.start(() => {
      wakeUps++;
      const before = next;
      while (next < schedule.length && (schedule[next] as number) <= nowMicros()) next++;
      // A wake-up without a due send would be one too early, unless an earlier one has already sent it.
      expect(next > before || wakeUps > 1).toBe(true);
      if (next === schedule.length) resolve();
    });
  });
  pacer.stop();
  expect(next).toBe(schedule.length);
  expect(wakeUps).toBeLessThanOrEqual(schedule.length);
});

test("wakes no more once it is stopped", async () => {
  const soon = nowMicros();
  const pacer = await ThreadPacer.prepare(shared([soon, soon + 3_600_000_000]));
  let wakeUps = 0;
  await new Promise<void>((resolve) => {
    pacer.start(() => {
      wakeUps++;
      pacer.stop();
      resolve();
    });
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(wakeUps).toBe(1);
});
