import type { ModelSpec } from "@dlrm/model";
import type { DecodableModel } from "./predict-request.ts";
import type { ScoringRequest } from "./input-collector.ts";
import type { ServerLimits } from "./model-metadata.ts";
import type { ScoreSink } from "./score-sink.ts";

export interface PredictOptions {
  readonly signal: AbortSignal;
  /** Milliseconds from now until the caller stops waiting; undefined for as long as it takes. */
  readonly deadlineMs: number | undefined;
}

/** A model that scores requests, wherever its device and its batches are. */
export interface ScoringModel extends DecodableModel {
  readonly name: string;
  readonly version: string;
  readonly spec: ModelSpec;
  readonly limits: ServerLimits;
  /** Batch sizes of the device, ascending. */
  readonly buckets: readonly number[];
  /** Scores a request: [B]. Reads it before this returns. Rejects with a `ServerError`. */
  predict(request: ScoringRequest, options: PredictOptions): Promise<Float32Array<ArrayBuffer>>;
  /** The same for a sink, which is told the outcome, perhaps at once; what is wrong with the request itself is thrown. */
  score(request: ScoringRequest, sink: ScoreSink): void;
}
