import type { ScoringRequest } from "./input-collector.ts";
import type { ModelPlan } from "./model-plan.ts";

/** Examples `start` … `start + count - 1` of a request, as a request of their own. */
export function sliceRequest(plan: ModelPlan, request: ScoringRequest, start: number, count: number): ScoringRequest {
  const ids = new Int32Array(count * plan.idsPerExample);
  for (const { feature, width, idOffset } of plan.inputs) {
    if (feature < 0) continue;
    const from = request.batch * idOffset + start * width;
    ids.set(request.ids.subarray(from, from + count * width), count * idOffset);
  }
  return {
    batch: count,
    dense: request.dense.slice(start * plan.denseFeatures, (start + count) * plan.denseFeatures),
    ids,
  };
}

/** The request, in arrays of its own. */
export function copyRequest({ batch, dense, ids }: ScoringRequest): ScoringRequest {
  return { batch, dense: Float32Array.from(dense), ids: Int32Array.from(ids) };
}

/** The scores of consecutive parts of a request, in one piece. */
export function joinScores(parts: readonly Float32Array<ArrayBuffer>[]): Float32Array<ArrayBuffer> {
  const joined = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
