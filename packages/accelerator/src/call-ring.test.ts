import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CALL_CANCELLED, CALL_DONE, CALL_FAILED, CallRing } from "./call-ring.ts";

describe("the call ring", () => {
  test("has room for at least the calls that were asked for, a power of two", () => {
    expect([1, 2, 3, 64, 65].map((calls) => CallRing.allocate(calls, 3).capacity)).toEqual([1, 2, 4, 64, 128]);
  });

  test("shows the other side what was set, by whatever wrapper", () => {
    const caller = CallRing.allocate(4, 3);
    const thread = new CallRing(caller.buffer, 3, 4);
    for (let tensor = 0; tensor < 3; tensor++) caller.setTensor(0, tensor, 10 + tensor, 1000 * tensor);
    caller.submit(12);
    expect(thread.submitted).toBe(1);
    expect(thread.begin(0)).toBe(true);
    expect(thread.bucketIndexOf(0)).toBe(12);
    expect([0, 1, 2].map((tensor) => [thread.bufferIdOf(0, tensor), thread.offsetOf(0, tensor)])).toEqual([
      [10, 0],
      [11, 1000],
      [12, 2000],
    ]);
    thread.finish(0, CALL_DONE, 123.5);
    expect(caller.completed).toBe(0);
    thread.complete();
    expect(caller.completed).toBe(1);
    expect(caller.stateOf(0)).toBe(CALL_DONE);
    expect(caller.busyMicrosOf(0)).toBe(123.5);
  });

  test("wakes whoever waits for completions, and tells at once if there were some", async () => {
    const ring = CallRing.allocate(2, 1);
    const change = ring.completedChange(0);
    expect(change).toBeInstanceOf(Promise);
    ring.complete();
    await expect(change).resolves.toBe("ok");
    expect(ring.completedChange(0)).toBeUndefined();
  });

  test("looks for the bell for as long as it is told to", () => {
    const ring = CallRing.allocate(2, 1);
    const heard = ring.bell;
    expect(ring.spinForBell(heard, 0.01)).toBe(false);
    ring.submit(0);
    expect(ring.spinForBell(heard, Number.POSITIVE_INFINITY)).toBe(true);
  });

  test("changes the bell for a call, a letter and the wish to close", () => {
    const ring = CallRing.allocate(2, 1);
    const bells = [ring.bell];
    ring.submit(0);
    bells.push(ring.bell);
    ring.announceLetter();
    bells.push(ring.bell);
    ring.announceClosing();
    bells.push(ring.bell);
    expect(new Set(bells).size).toBe(4);
    expect(ring.letters).toBe(1);
    expect(ring.closing).toBe(true);
    // The thread heard an older bell: it must not sleep.
    ring.waitForBell(bells[0]!);
  });

  test("gives a call either to the caller who takes it back or to the thread that begins it", () => {
    const ring = CallRing.allocate(2, 1);
    ring.submit(0);
    ring.submit(0);
    expect(ring.cancel(0)).toBe(true);
    expect(ring.begin(0)).toBe(false);
    expect(ring.stateOf(0)).toBe(CALL_CANCELLED);
    expect(ring.begin(1)).toBe(true);
    expect(ring.cancel(1)).toBe(false);
  });

  test("agrees with a plain queue through any history, across slots", () => {
    const step = fc.constantFrom("submit", "cancel", "done", "failed" as const);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.array(step, { maxLength: 200 }), (calls, steps) => {
        const ring = CallRing.allocate(calls, 2);
        const queue: { call: number; cancelled: boolean }[] = [];
        let made = 0;
        let next = 0;
        for (const action of steps) {
          if (action === "submit" && queue.length < ring.capacity) {
            const slot = ring.slotOf(made);
            ring.setTensor(slot, 0, made, 1e9 - made);
            ring.setTensor(slot, 1, made * 2, made * 3);
            ring.submit(made % 7);
            queue.push({ call: made++, cancelled: false });
          } else if (action === "cancel" && queue.length > 0) {
            const last = queue.at(-1)!;
            expect(ring.cancel(ring.slotOf(last.call))).toBe(!last.cancelled);
            last.cancelled = true;
          } else if (action !== "submit" && queue.length > 0) {
            const { call, cancelled } = queue.shift()!;
            expect(call).toBe(next);
            const slot = ring.slotOf(next++);
            expect(ring.begin(slot)).toBe(!cancelled);
            expect([ring.bucketIndexOf(slot), ring.bufferIdOf(slot, 0), ring.offsetOf(slot, 0)]).toEqual([
              call % 7,
              call,
              1e9 - call,
            ]);
            expect([ring.bufferIdOf(slot, 1), ring.offsetOf(slot, 1)]).toEqual([call * 2, call * 3]);
            const state = action === "failed" ? CALL_FAILED : CALL_DONE;
            if (!cancelled) ring.finish(slot, state, call);
            ring.complete();
            expect(ring.stateOf(slot)).toBe(cancelled ? CALL_CANCELLED : state);
          }
          expect(ring.submitted - ring.completed).toBe(queue.length);
        }
      }),
    );
  });
});
