import type { BatchSlot } from "./batch-slot.ts";
import type { ScoringRequest } from "./input-collector.ts";
import type { ScoreSink } from "./score-sink.ts";

/** A request, or a part of one, on its way through the batcher. */
export class ScoringItem {
  readonly batch: number;
  /** Where it was gathered; undefined if it could not be placed when it came. */
  readonly slot: BatchSlot | undefined;
  readonly row: number;
  /** A copy to gather from later; there iff it has no slot. */
  readonly request: ScoringRequest | undefined;
  /** Who gets the scores; without one they are the result of the batcher. */
  readonly sink: ScoreSink | undefined;
  /** It is in a batch, which frees its slot. */
  isRunning = false;
  /** When it was placed, on `performance.now()`'s clock; 0 if nobody wants to know. */
  placedAtMs = 0;
  /** Its sink has been told that it failed. */
  hasFailed = false;

  constructor(
    batch: number,
    slot: BatchSlot | undefined,
    row: number,
    request: ScoringRequest | undefined,
    sink: ScoreSink | undefined,
  ) {
    this.batch = batch;
    this.slot = slot;
    this.row = row;
    this.request = request;
    this.sink = sink;
  }
}
