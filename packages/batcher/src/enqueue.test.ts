import { describe, expect, test } from "vitest";
import type { BatcherOptions, CancelSignal, ItemOwner } from "./index.ts";
import { Batcher } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

/** Every other item may be waiting while one runs for 10 ms. */
function rig(options: Partial<BatcherOptions<number, string>> = {}): {
  clock: FakeClock;
  batcher: Batcher<number, string>;
  told: [number, string][];
  enqueue: (
    item: number,
    more?: Parameters<Batcher<number, string>["enqueue"]>[2],
  ) => ReturnType<Batcher<number, string>["enqueue"]>;
} {
  const clock = new FakeClock();
  const told: [number, string][] = [];
  const batcher = new Batcher<number, string>({
    clock,
    maxBatchSize: 2,
    run: ({ items }) =>
      new Promise((resolve) => {
        clock.schedule(() => resolve(items.map((item) => `${item}!`)), 10);
      }),
    ...options,
  });
  return {
    clock,
    batcher,
    told,
    enqueue: (item, more) =>
      batcher.enqueue(
        item,
        (error, result) => told.push([item, error === undefined ? String(result) : error.code]),
        more,
      ),
  };
}

describe("enqueue", () => {
  test("tells each its own result, in order with those that were submitted", async () => {
    const { clock, batcher, told, enqueue } = rig();
    const handle = enqueue(1);
    const submitted = batcher.submit(2);
    enqueue(3);
    expect(handle.state).toBe("queued");
    await clock.settle();
    expect(handle.state).toBe("running");
    await clock.advanceMs(10);
    expect(told).toEqual([[1, "1!"]]);
    expect(await submitted).toBe("2!");
    await clock.advanceMs(10);
    expect(told).toEqual([
      [1, "1!"],
      [3, "3!"],
    ]);
    expect(handle.state).toBe("settled");
  });

  test("never calls back before it returns, not even with a refusal", async () => {
    const { clock, told, enqueue } = rig();
    const handle = enqueue(1, { deadlineMs: 0 });
    expect([handle.state, told]).toEqual(["settled", []]);
    await clock.settle();
    expect(told).toEqual([[1, "deadline_exceeded"]]);
  });

  test("tells an object that hears by a method what it would tell a function", async () => {
    const { clock, batcher } = rig({
      sizeOf: (item) => item,
      split: (item, maxSize) => Array.from({ length: Math.ceil(item / maxSize) }, () => maxSize),
      join: (results) => results.join("+"),
    });
    const heard: [number, string | undefined, string | undefined][] = [];
    const ownerOf = (item: number): ItemOwner<string> => ({
      settled: (error, result) => heard.push([item, error?.code, result]),
    });
    batcher.enqueue(1, ownerOf(1));
    batcher.enqueue(4, ownerOf(4));
    batcher.enqueue(2, ownerOf(2), { deadlineMs: 0 });
    batcher.cancel(batcher.enqueue(1, ownerOf(3)));
    expect(heard).toEqual([]);
    await clock.advanceMs(100);
    expect(heard).toEqual([
      [2, "deadline_exceeded", undefined],
      [3, "cancelled", undefined],
      [1, undefined, "1!"],
      [4, undefined, "2!+2!"],
    ]);
  });

  test("an item is cancelled once, whether it waits or runs, and its reason is the cause", async () => {
    const { clock, batcher, told, enqueue } = rig({ maxBatchSize: 1 });
    const running = enqueue(1);
    let cause: unknown;
    const waiting = batcher.enqueue(2, (error) => {
      cause = error?.cause;
    });
    await clock.settle();
    expect([batcher.cancel(running), batcher.cancel(waiting, "gone"), batcher.cancel(waiting)]).toEqual([
      true,
      true,
      false,
    ]);
    await clock.advanceMs(20);
    expect([told, cause]).toEqual([[[1, "cancelled"]], "gone"]);
    expect(batcher.stats()).toMatchObject({ cancelledInRunItems: 1, cancelledBeforeRunItems: 1, queuedItems: 0 });
  });

  test("all parts of a split item are cancelled together", async () => {
    const { clock, batcher, told, enqueue } = rig({
      sizeOf: (item) => item,
      split: (item, maxSize) => Array.from({ length: Math.ceil(item / maxSize) }, () => maxSize),
      join: (results) => results.join(),
    });
    const handle = enqueue(6);
    expect(handle.state).toBe("queued");
    await clock.settle();
    expect([handle.state, batcher.stats().queuedSize]).toEqual(["running", 4]);
    expect(batcher.cancel(handle)).toBe(true);
    await clock.advanceMs(20);
    expect(told).toEqual([[6, "cancelled"]]);
    expect([handle.state, batcher.stats().queuedSize]).toEqual(["settled", 0]);
  });

  test("a callback may close the batcher; the others of its batch still get their results", async () => {
    const { clock, batcher, told, enqueue } = rig();
    batcher.enqueue(1, () => batcher.close());
    enqueue(2);
    enqueue(3);
    await clock.advanceMs(10);
    expect(told).toEqual([
      [2, "2!"],
      [3, "closed"],
    ]);
  });

  test("anything that can be listened to for an abort is a signal", async () => {
    const { clock, told, enqueue } = rig();
    const listeners = new Set<() => void>();
    const signal: CancelSignal = {
      aborted: false,
      addEventListener: (_, listener) => listeners.add(listener),
      removeEventListener: (_, listener) => listeners.delete(listener),
    };
    enqueue(1, { signal });
    expect(listeners.size).toBe(1);
    for (const listener of listeners) {
      listener();
    }
    await clock.settle();
    expect([told, listeners.size]).toEqual([[[1, "cancelled"]], 0]);
  });
});

describe("hasRoom", () => {
  test("says of items and of size what submit would", async () => {
    const { clock, batcher } = rig({ maxEnqueuedItems: 3, maxEnqueuedSize: 4, sizeOf: (item) => item });
    void batcher.submit(2);
    await clock.settle();
    void batcher.submit(2);
    expect([1, 2, 3].map((size) => batcher.hasRoom(size))).toEqual([true, true, false]);
    void batcher.submit(1);
    void batcher.submit(1);
    expect(batcher.hasRoom()).toBe(false);
    await clock.advanceMs(100);
    expect(batcher.hasRoom()).toBe(true);
    await batcher.drain();
    expect(batcher.hasRoom()).toBe(false);
  });

  test("counts plain items that came just now", () => {
    const { batcher } = rig({ maxEnqueuedItems: 2 });
    void batcher.submit(1);
    expect(batcher.hasRoom()).toBe(true);
    void batcher.submit(2);
    expect(batcher.hasRoom()).toBe(false);
    expect(batcher.stats()).toMatchObject({ submittedItems: 2, queuedItems: 2 });
  });
});
