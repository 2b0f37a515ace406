import { describe, expect, test } from "vitest";
import { KeepAlive } from "./keep-alive.ts";
import { ResultWatch } from "./result-watch.ts";
import { CLOSED, controlWords, initialize, LIFECYCLE, PUBLISHED, slotAt } from "./ring-protocol.ts";

/** A watch that sleeps at once, of a ring with one producer, and what it has told. */
function rig() {
  const shape = { slots: 2, producers: 1, rows: 1 };
  const control = new Int32Array(new SharedArrayBuffer(controlWords(shape) * Int32Array.BYTES_PER_ELEMENT));
  initialize(control, shape);
  const told: number[] = [];
  const keepAlive = new KeepAlive();
  const callbacks = { onPublished: (slot: number) => void told.push(slot), checkEnded: () => false };
  const watch = new ResultWatch(control, shape, keepAlive, callbacks, 0);
  let sequence = 0;
  /** As the consumer does; resolves when all that waited for it have been woken. */
  const publish = async (slot: number): Promise<void> => {
    const at = slotAt(shape, slot) + PUBLISHED;
    const woken = Atomics.waitAsync(control, at, Atomics.load(control, at)).value;
    Atomics.store(control, at, (sequence += 1));
    Atomics.notify(control, at);
    await woken;
  };
  return { watch, told, keepAlive, publish };
}

describe("what is published", () => {
  test("is told of when that is asked for, and not again by who slept on it", async () => {
    const { watch, told, keepAlive, publish } = rig();
    watch.watch(1);
    watch.endTick();
    watch.tellPublished();
    expect(told).toEqual([]);
    const woken = publish(1);
    watch.tellPublished();
    expect(told).toEqual([1]);
    expect(watch.watches(1)).toBe(false);
    await woken;
    expect(told).toEqual([1]);
    expect(keepAlive.held).toBe(false);
    keepAlive.end();
  });

  test("is told of once for each batch, where the next one is watched before the sleeper on the last wakes", async () => {
    const { watch, told, keepAlive, publish } = rig();
    watch.watch(1);
    watch.endTick();
    const woken = publish(1);
    watch.tellPublished();
    watch.watch(1);
    watch.endTick();
    expect(told).toEqual([1]);
    await woken;
    expect(told).toEqual([1]);
    expect(keepAlive.held).toBe(true);
    await publish(1);
    expect(told).toEqual([1, 1]);
    expect(keepAlive.held).toBe(false);
    keepAlive.end();
  });

  test("is told of once where it is watched, told of and watched anew before its tick ends", async () => {
    const { watch, told, keepAlive, publish } = rig();
    watch.watch(0);
    await publish(0);
    watch.tellPublished();
    watch.watch(0);
    watch.endTick();
    expect(told).toEqual([0]);
    await publish(0);
    expect(told).toEqual([0, 0]);
    expect(keepAlive.held).toBe(false);
    keepAlive.end();
  });

  test("is told of no more after the end", async () => {
    const { watch, told, keepAlive, publish } = rig();
    watch.watch(0);
    watch.watch(1);
    watch.endTick();
    const woken = publish(0);
    watch.end();
    expect(told).toEqual([0]);
    await Promise.all([woken, publish(1)]);
    watch.tellPublished();
    expect(told).toEqual([0]);
    keepAlive.end();
  });
});

test("a batch that is published while its ring ends is told of once", async () => {
  const shape = { slots: 2, producers: 1, rows: 1 };
  const control = new Int32Array(new SharedArrayBuffer(controlWords(shape) * Int32Array.BYTES_PER_ELEMENT));
  initialize(control, shape);
  const told: number[] = [];
  const keepAlive = new KeepAlive();
  const callbacks = { onPublished: (slot: number) => void told.push(slot), checkEnded: () => false };
  const watch = new ResultWatch(control, shape, keepAlive, callbacks, 0);
  watch.watch(1);
  Atomics.store(control, LIFECYCLE, CLOSED);
  // It begins to wait, and looks again soon as the ring has ended.
  watch.endTick();
  const at = slotAt(shape, 1) + PUBLISHED;
  const sameNotification = Atomics.waitAsync(control, at, 0).value;
  Atomics.store(control, at, 2);
  Atomics.notify(control, at);
  await sameNotification;
  expect(told).toEqual([1]);
  keepAlive.end();
});
