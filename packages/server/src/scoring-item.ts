import type { BatcherError, Enqueued } from "@dlrm/batcher";
import type { BatchSlot } from "./batch-slot.ts";
import type { ScoringRequest } from "./input-collector.ts";
import type { ScoreSink } from "./score-sink.ts";

/** Whoever put an item into the batcher. */
export interface ScoringItemOwner {
  /** What has become of it; without an error its sink gets the scores from elsewhere. */
  itemSettled(item: ScoringItem, error: BatcherError | undefined): void;
  /** Nobody waits for its scores any more. */
  itemAborted(item: ScoringItem): void;
}

/**
 * A request, or a part of one, on its way through the batcher. It hears itself what becomes of it: functions that know it
 * would be as large as all the rest of it.
 */
export class ScoringItem {
  readonly batch: number;
  /** Where it was gathered; undefined if it could not be placed when it came. */
  readonly slot: BatchSlot | undefined;
  readonly row: number;
  /** A copy to gather from later; there iff it has no slot. */
  readonly request: ScoringRequest | undefined;
  /** Who gets the scores; without one they are the result of the batcher. */
  readonly sink: ScoreSink | undefined;
  /** Of the batcher, once it is there; only with a sink. */
  enqueued: Enqueued | undefined = undefined;
  /** It is in a batch, which frees its slot. */
  isRunning = false;
  /** When it was placed, on `performance.now()`'s clock; 0 if nobody wants to know. */
  placedAtMs = 0;
  /** Its sink has been told that it failed. */
  hasFailed = false;
  readonly #owner: ScoringItemOwner;

  constructor(
    owner: ScoringItemOwner,
    batch: number,
    slot: BatchSlot | undefined,
    row: number,
    request: ScoringRequest | undefined,
    sink: ScoreSink | undefined,
  ) {
    this.#owner = owner;
    this.batch = batch;
    this.slot = slot;
    this.row = row;
    this.request = request;
    this.sink = sink;
  }

  /** For the batcher. */
  settled(error: BatcherError | undefined): void {
    this.#owner.itemSettled(this, error);
  }

  /** For the sink's signal. */
  handleEvent(): void {
    this.#owner.itemAborted(this);
  }
}
