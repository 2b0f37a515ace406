import { buryId } from "./producer-numbers.ts";
import type { RingSchema, SharedRing } from "./ring-memory.ts";
import { mapControl, shapeOf } from "./ring-memory.ts";
import { CLOSED, CONSUMER_GONE, DRAINING, raiseLifecycle } from "./ring-protocol.ts";

/** Producers take nothing new; the consumer runs what is in and then ends. Any thread may call it. */
export function drainRing<Schema extends RingSchema>(ring: SharedRing<Schema>): void {
  raiseLifecycle(new Int32Array(ring.control), shapeOf(ring), DRAINING);
}

/** Ends a ring at once: items in it reject with `closed`. Any thread may call it. */
export function closeRing<Schema extends RingSchema>(ring: SharedRing<Schema>): void {
  raiseLifecycle(new Int32Array(ring.control), shapeOf(ring), CLOSED);
}

/**
 * To be called when the consumer's thread has ended, from the `exit` event of its worker: all items reject with
 * `consumer_gone`. A ring whose consumer is gone is of no more use.
 */
export function buryConsumer<Schema extends RingSchema>(ring: SharedRing<Schema>): void {
  raiseLifecycle(new Int32Array(ring.control), shapeOf(ring), CONSUMER_GONE);
}

/**
 * To be called when a producer's thread has ended without `leave`, from the `exit` event of its worker: the ring does not
 * wait for what it had begun, and its number is free again once the consumer has seen that, between two batches or at once
 * while it waits. Never for one that may still write, and not by two threads of one producer at the same
 * time. For one that has left or was buried it does nothing.
 */
export function buryProducer<Schema extends RingSchema>(ring: SharedRing<Schema>, id: number): void {
  const { control, numbers } = mapControl(ring);
  buryId(control, shapeOf(ring), numbers, id);
}
