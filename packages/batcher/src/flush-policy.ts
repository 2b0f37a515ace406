/**
 * Why a batch was made when it was:
 * - `full`: no more fits, or what it has is as much as pays.
 * - `idle`: there was room in flight, and waiting for more would not have paid.
 * - `timeout`: it had waited as long as the policy allows.
 * - `deadline`: with more waiting, an item would have missed its deadline.
 * - `drain`: the batcher is draining.
 */
export type FlushReason = "full" | "idle" | "timeout" | "deadline" | "drain";

/** What to do with a batch between two allowed sizes. */
export type PaddingPolicy = "padUp" | "batchDown" | "minimizeCost";

/** The queue and the room in flight, at a moment when there is both something waiting and room for a batch. */
export interface QueueView {
  readonly nowMs: number;
  readonly items: number;
  readonly size: number;
  readonly oldestArrivalMs: number;
  /** Since when there has been room in flight. */
  readonly roomSinceMs: number;
}

/** A run is expected to take this much of what was learnt when a deadline is near. */
export const DEADLINE_MARGIN = 1.25;

/** What a policy says: flush now, up to these bounds, or wait. */
export type FlushDecision =
  | { readonly flush: true; readonly reason: FlushReason; readonly maxItems: number; readonly maxSize: number }
  | {
      readonly flush: false;
      /** Ask again at this time, */
      readonly untilMs: number;
      /** or as soon as this many items wait, */
      readonly untilItems: number;
      /** or as soon as this size waits. */
      readonly untilSize: number;
      /** A deadline that is nearer than this to the time to ask again flushes earlier: what the run would take. */
      readonly runMs: number;
    };

/** Decides when waiting items become a batch, and learns from what happens. */
export interface FlushPolicy {
  decide(view: QueueView): FlushDecision;
  /** Items have come, `items` of them with this summed size at one time. */
  arrived(nowMs: number, items: number, size: number): void;
  /** A batch of this many items is over, its items answered. */
  answered(nowMs: number, items: number): void;
}

/** Policy `off`: each item alone, as soon as there is room. */
export class OffPolicy implements FlushPolicy {
  decide(): FlushDecision {
    return { flush: true, reason: "full", maxItems: 1, maxSize: Infinity };
  }
  arrived(): void {}
  answered(): void {}
}
