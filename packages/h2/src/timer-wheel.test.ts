import fc from "fast-check";
import { expect, test } from "vitest";
import { TimerWheel, type WheelClock, type WheelTimer } from "./timer-wheel.ts";

class FakeClock implements WheelClock {
  timeMs = 1000;
  scheduled: { readonly atMs: number; readonly callback: () => void } | undefined = undefined;
  schedules = 0;

  nowMs(): number {
    return this.timeMs;
  }

  schedule(callback: () => void, delayMs: number): () => void {
    if (this.scheduled !== undefined) throw new Error("a second timer");
    this.schedules += 1;
    const entry = { atMs: this.timeMs + delayMs, callback };
    this.scheduled = entry;
    return () => {
      if (this.scheduled === entry) this.scheduled = undefined;
    };
  }

  /** Time passes, and the timer fires when it is due. */
  passTo(timeMs: number): void {
    while (this.scheduled !== undefined && this.scheduled.atMs <= timeMs) {
      const { atMs, callback } = this.scheduled;
      this.scheduled = undefined;
      this.timeMs = Math.max(this.timeMs, atMs);
      callback();
    }
    this.timeMs = timeMs;
  }
}

function wheel(options: { readonly tickMs?: number; readonly slots?: number } = {}) {
  const clock = new FakeClock();
  const expired: [item: string, atMs: number][] = [];
  const timers = new TimerWheel<string>({
    ...options,
    clock,
    onExpired: (item) => expired.push([item, clock.timeMs]),
  });
  return { clock, timers, expired };
}

test("an item expires when it is due, no earlier and less than a tick later", () => {
  const { clock, timers, expired } = wheel({ tickMs: 4 });
  timers.add("a", 9);
  clock.passTo(1008);
  expect(expired).toEqual([]);
  clock.passTo(1012);
  expect(expired).toEqual([["a", 1012]]);
  expect(timers.size).toBe(0);
  expect(clock.scheduled).toBeUndefined();
});

test("a delay of 0, of less, and of much more than a turn of the wheel", () => {
  const { clock, timers, expired } = wheel({ tickMs: 2, slots: 4 });
  timers.add("far", 100);
  timers.add("now", 0);
  timers.add("before", -5);
  clock.passTo(1099);
  expect(new Map(expired)).toEqual(
    new Map([
      ["now", 1002],
      ["before", 1002],
    ]),
  );
  clock.passTo(1100);
  expect(expired.at(-1)).toEqual(["far", 1100]);
});

test("an item that is cancelled never expires, and can be cancelled once", () => {
  const { clock, timers, expired } = wheel();
  const first = timers.add("first", 10);
  timers.add("second", 10);
  const third = timers.add("third", 10);
  expect([timers.cancel(first), timers.cancel(first), timers.cancel(third)]).toEqual([true, false, true]);
  expect([first.isPending, timers.size]).toEqual([false, 1]);
  clock.passTo(2000);
  expect(expired.map(([item]) => item)).toEqual(["second"]);
  expect(timers.cancel(first)).toBe(false);
});

test("what is due together expires in order, also after a long pause, and an item may cancel a later one", () => {
  const clock = new FakeClock();
  const expired: string[] = [];
  const timers: TimerWheel<string> = new TimerWheel<string>({
    clock,
    slots: 8,
    onExpired(item) {
      expired.push(item);
      if (item === "b") timers.cancel(victim);
    },
  });
  const victim: WheelTimer<string> = timers.add("c", 30);
  timers.add("d", 40);
  timers.add("b", 20);
  timers.add("a", 10);
  // The event loop was held up: the timer fires late.
  clock.timeMs = 1500;
  clock.passTo(1500);
  expect(expired).toEqual(["a", "b", "d"]);
});

test("many items cost one timer, and none is left when all are cancelled or cleared", () => {
  const { clock, timers, expired } = wheel();
  const all = Array.from({ length: 1000 }, (_, index) => timers.add(`${index}`, 5000 + index));
  expect(clock.schedules).toBe(1);
  for (const timer of all) timers.cancel(timer);
  clock.passTo(10_000);
  expect(expired).toEqual([]);
  expect(clock.scheduled).toBeUndefined();
  const last = timers.add("x", 10);
  timers.clear();
  expect([timers.size, last.isPending, clock.scheduled]).toEqual([0, false, undefined]);
});

test("an item that throws does not keep the others from expiring", () => {
  const clock = new FakeClock();
  const expired: string[] = [];
  const timers = new TimerWheel<string>({
    clock,
    onExpired(item) {
      expired.push(item);
      if (item !== "c") throw new Error(item);
    },
  });
  for (const item of ["a", "b"]) timers.add(item, 5);
  timers.add("c", 50);
  expect(() => clock.passTo(1010)).toThrow(AggregateError);
  clock.passTo(1060);
  expect(expired.sort()).toEqual(["a", "b", "c"]);
});

test("it does what a list that is looked through each millisecond would do", () => {
  const step = fc.oneof(
    fc.record({ add: fc.integer({ min: -3, max: 200 }) }),
    fc.record({ cancel: fc.nat({ max: 30 }) }),
    fc.record({ pass: fc.integer({ min: 0, max: 90 }) }),
  );
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 80 }),
      fc.constantFrom(1, 2, 4),
      fc.constantFrom(2, 8, 64),
      (steps, tickMs, slots) => {
        const { clock, timers, expired } = wheel({ tickMs, slots });
        const added: { timer: WheelTimer<string>; dueMs: number; cancelled: boolean }[] = [];
        for (const each of steps) {
          if ("add" in each) {
            const timer = timers.add(`${added.length}`, each.add);
            added.push({ timer, dueMs: clock.timeMs + Math.max(0, each.add), cancelled: false });
          } else if ("pass" in each) {
            clock.passTo(clock.timeMs + each.pass);
          } else {
            const victim = added[each.cancel];
            if (victim !== undefined && timers.cancel(victim.timer)) victim.cancelled = true;
          }
        }
        clock.passTo(clock.timeMs + 1000);
        expect(expired.length).toBe(added.filter((each) => !each.cancelled).length);
        for (const [item, atMs] of expired) {
          const { dueMs } = added[Number(item)] as { dueMs: number };
          expect(atMs).toBeGreaterThanOrEqual(dueMs);
          expect(atMs).toBeLessThanOrEqual(dueMs + tickMs);
        }
      },
    ),
  );
});

test.each([
  [{ tickMs: 0 }, "tickMs: expected a number above 0, got 0"],
  [{ slots: 100 }, "slots: expected a power of two, 2 or more, got 100"],
])("%o is refused", (options, message) => {
  expect(() => wheel(options)).toThrow(message);
});

test("an item that is added while others expire does not keep nearer ones waiting", () => {
  const clock = new FakeClock();
  const expired: [item: string, atMs: number][] = [];
  const timers: TimerWheel<string> = new TimerWheel<string>({
    clock,
    onExpired(item) {
      expired.push([item, clock.timeMs]);
      if (item === "first") timers.add("far", 1000);
    },
  });
  timers.add("first", 10);
  timers.add("near", 50);
  clock.passTo(3000);
  expect(expired).toEqual([
    ["first", 1010],
    ["near", 1050],
    ["far", 2010],
  ]);
});

test("with the system's clock an item expires too", async () => {
  const expired = new Promise<string>((onExpired) => new TimerWheel<string>({ onExpired }).add("x", 1));
  expect(await expired).toBe("x");
});

test("an item may be further away than a timer of Node's can be", async () => {
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", onWarning);
  const timers = new TimerWheel<string>({ onExpired: () => {} });
  timers.add("x", 1e12);
  // A warning comes before that.
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", onWarning);
  expect(warnings).toEqual([]);
  expect(timers.size).toBe(1);
  timers.clear();
});
