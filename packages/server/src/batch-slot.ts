import type { NamedTensors } from "@dlrm/accelerator";
import type { GatherPlan } from "@dlrm/embedding";
import type { ScoringRequest } from "./input-collector.ts";

export interface BatchSlotLayout {
  /** Rows: the largest batch. */
  readonly rows: number;
  readonly denseFeatures: number;
  /** Elements of an example's pooled vectors: features × embedding dim. */
  readonly pooledWidth: number;
}

/**
 * Shared memory for one batch, used again and again: requests are gathered into their rows, the device reads and writes
 * them in place. A request can be placed as soon as its row is known; rows are independent of each other.
 */
export class BatchSlot {
  readonly inputs: NamedTensors;
  readonly outputs: NamedTensors;
  readonly #layout: BatchSlotLayout;
  readonly #dense: Float32Array<SharedArrayBuffer>;
  readonly #pooled: Float32Array<SharedArrayBuffer>;
  readonly #scores: Float32Array<SharedArrayBuffer>;

  constructor(layout: BatchSlotLayout) {
    this.#layout = layout;
    this.#dense = sharedFloats(layout.rows * layout.denseFeatures);
    this.#pooled = sharedFloats(layout.rows * layout.pooledWidth);
    this.#scores = sharedFloats(layout.rows);
    this.inputs = { dense: this.#dense, pooled: this.#pooled };
    this.outputs = { scores: this.#scores };
  }

  /** Gathers, pools and copies a request into rows `row` … `row + request.batch - 1`. */
  place(request: ScoringRequest, plan: GatherPlan, row: number): void {
    plan.gather(request.ids, request.batch, this.#pooled, row);
    this.#dense.set(request.dense, row * this.#layout.denseFeatures);
  }

  /** The scores of `count` rows from `row`, copied out: the slot may be used again. */
  scores(row: number, count: number): Float32Array<ArrayBuffer> {
    const scores = new Float32Array(count);
    if (count === 1) scores[0] = this.#scores[row] as number;
    else scores.set(this.#scores.subarray(row, row + count));
    return scores;
  }
}

function sharedFloats(length: number): Float32Array<SharedArrayBuffer> {
  return new Float32Array(new SharedArrayBuffer(length * Float32Array.BYTES_PER_ELEMENT));
}
