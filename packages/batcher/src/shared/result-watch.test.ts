import { expect, test } from "vitest";
import { KeepAlive } from "./keep-alive.ts";
import { ResultWatch } from "./result-watch.ts";
import { CLOSED, controlWords, initialize, LIFECYCLE, PUBLISHED, slotAt } from "./ring-protocol.ts";

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
