import { allocateTensor, type NamedTensors } from "@dlrm/accelerator";
import type { GatherPlan } from "@dlrm/embedding";
import type { ScoringRequest } from "./input-collector.ts";
import { touchRows, TOUCHED_ROWS } from "./touch-pages.ts";

export interface BatchSlotLayout {
  /** Rows: what may be placed, and the padding of the last batch of it. */
  readonly rows: number;
  readonly denseFeatures: number;
  /** Elements of an example's pooled vectors: features × embedding dim. */
  readonly pooledWidth: number;
}

/**
 * Shared memory for requests that become batches, used again and again: requests are gathered into their rows, the device
 * reads and writes them in place. A request can be placed as soon as its row is known; rows are independent of each other.
 *
 * Batches of one slot run in the order of their rows, so that the padding of a batch, which lies in rows of later ones, is
 * overwritten before anyone reads it. Where the device works on several at one time they may end in any order: then a batch
 * whose padding would reach rows of others runs in a slot of its own.
 */
export class BatchSlot {
  /** Rows that were given out, from the first on. */
  used = 0;
  /** Requests, and batches, that still need it. */
  users = 0;
  /** [rows] */
  readonly scores: Float32Array<SharedArrayBuffer>;
  readonly #layout: BatchSlotLayout;
  readonly #dense: Float32Array<SharedArrayBuffer>;
  readonly #pooled: Float32Array<SharedArrayBuffer>;
  readonly #inputs: NamedTensors;
  readonly #outputs: NamedTensors;

  constructor(layout: BatchSlotLayout) {
    this.#layout = layout;
    this.#dense = allocateTensor(layout.rows * layout.denseFeatures);
    this.#pooled = allocateTensor(layout.rows * layout.pooledWidth);
    this.scores = allocateTensor(layout.rows);
    this.#inputs = { dense: this.#dense, pooled: this.#pooled };
    this.#outputs = { scores: this.scores };
  }

  /** Has the system give the first rows their memory now: of a new slot, before requests are served, as it takes some milliseconds. */
  touch(): void {
    touchRows([this.#dense, this.#pooled, this.scores], this.#layout.rows, TOUCHED_ROWS);
  }

  /** What the device reads for a batch that begins at this row. */
  inputsFrom(row: number): NamedTensors {
    if (row === 0) return this.#inputs;
    const { denseFeatures, pooledWidth } = this.#layout;
    return { dense: this.#dense.subarray(row * denseFeatures), pooled: this.#pooled.subarray(row * pooledWidth) };
  }

  /** Where the device writes for a batch that begins at this row. */
  outputsFrom(row: number): NamedTensors {
    return row === 0 ? this.#outputs : { scores: this.scores.subarray(row) };
  }

  /** Gathers, pools and copies a request into rows `row` … `row + request.batch - 1`; throws if an id is no row of its table. */
  place({ ids, batch, dense }: ScoringRequest, plan: GatherPlan, row: number): void {
    plan.gather(ids, batch, this.#pooled, row);
    const at = row * this.#layout.denseFeatures;
    if (batch > 1) this.#dense.set(dense, at);
    else for (let index = 0; index < dense.length; index++) this.#dense[at + index] = dense[index] as number;
  }

  /** Copies what was placed in `count` rows of another slot, from `sourceRow`, to rows from `row`. */
  copy(source: BatchSlot, sourceRow: number, row: number, count: number): void {
    const { denseFeatures, pooledWidth } = this.#layout;
    this.#dense.set(
      source.#dense.subarray(sourceRow * denseFeatures, (sourceRow + count) * denseFeatures),
      row * denseFeatures,
    );
    this.#pooled.set(
      source.#pooled.subarray(sourceRow * pooledWidth, (sourceRow + count) * pooledWidth),
      row * pooledWidth,
    );
  }
}
