import type { WheelTimer } from "@dlrm/h2";
import type { ScoringRequest } from "./input-collector.ts";
import type { ScoreSink } from "./score-sink.ts";

/** A request, or a part of one, in a frontend's end of the ring. */
export class RingItem {
  readonly size: number;
  readonly sink: ScoreSink;
  /** `waiting` for room in the ring, in the ring, or `settled`: the sink was told. */
  state: "waiting" | "inRing" | "settled" = "waiting";
  /** Where it is in the ring. */
  slot = -1;
  row = 0;
  /** A copy to gather from when there is room; there iff it waits. */
  request: ScoringRequest | undefined = undefined;
  /** Of one that waits, on this thread's clock. */
  deadlineAtMs: number = Infinity;
  timer: WheelTimer<RingItem> | undefined = undefined;
  unlisten: (() => void) | undefined = undefined;
  /** When it was gathered, milliseconds since the epoch; 0 if nobody wants to know. */
  placedAtMs = 0;

  constructor(size: number, sink: ScoreSink) {
    this.size = size;
    this.sink = sink;
  }
}
