import { createSharedRing, type SharedRing, slotViews } from "@dlrm/batcher/shared";
import type { FieldSpec } from "@dlrm/batcher/shared";
import { touchRows, TOUCHED_ROWS } from "./touch-pages.ts";

/** The fields of an example in a ring: what a device reads, and what it writes. */
export interface ScoringSchema {
  readonly inputs: { readonly dense: Float32Field; readonly pooled: Float32Field };
  readonly outputs: { readonly scores: Float32Field };
}

interface Float32Field extends FieldSpec {
  readonly type: "float32";
}

export type ScoringRing = SharedRing<ScoringSchema>;

/** Beside those that run one batch is read, and two can be filled. */
const FREE_SLOTS = 3;
/** As `FREE_SLOTS`, of requests that run alone. Only what their rows reach of the ring's memory is ever touched. */
const FREE_SLOTS_ALONE = 15;
/** Frontends at a time, and those that have ended while a batch has not. */
const MAX_PRODUCERS = 31;

export interface ScoringRingOptions {
  readonly denseFeatures: number;
  /** Elements of an example's pooled vectors: features × embedding dim. */
  readonly pooledWidth: number;
  readonly maxBatchSize: number;
  /** What a batch of `maxBatchSize` is padded to: the device reads and writes so many rows of it. */
  readonly largestBucket: number;
  /** Whether each request is a batch of its own. */
  readonly itemsAlone: boolean;
  readonly maxInFlightBatches: number;
}

/**
 * With the memory of the slots' first rows, as many in all as the slots of one thread have from the start; but not where requests run
 * alone: each begins at a slot's first row, however many wait.
 */
export function createScoringRing(options: ScoringRingOptions): ScoringRing {
  const { denseFeatures, pooledWidth, maxBatchSize, largestBucket, itemsAlone, maxInFlightBatches } = options;
  const leastSlots = maxInFlightBatches + (itemsAlone ? FREE_SLOTS_ALONE : FREE_SLOTS);
  const ring: ScoringRing = createSharedRing({
    schema: {
      inputs: {
        dense: { type: "float32", shape: [denseFeatures] },
        pooled: { type: "float32", shape: [pooledWidth] },
      },
      outputs: { scores: { type: "float32", shape: [] } },
    },
    maxBatchSize,
    paddingRows: largestBucket - maxBatchSize,
    itemsAlone,
    slots: 2 ** Math.ceil(Math.log2(leastSlots)),
    maxProducers: MAX_PRODUCERS,
  });
  if (!itemsAlone) {
    const touchedRows = Math.floor((TOUCHED_ROWS * (maxInFlightBatches + 1)) / ring.slots);
    for (const { inputs, outputs } of slotViews(ring)) {
      touchRows([inputs.dense, inputs.pooled, outputs.scores], largestBucket, touchedRows);
    }
  }
  return ring;
}

const RUNNING_EXAMPLES = 0;
const RUNNING_SLOTS = 1;
const WORDS = 2;

/** Which batches of a ring the device runs: written by the thread that feeds it, read by the frontends. */
export class RunningBatches {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array<SharedArrayBuffer>;
  /** When the batch of each slot was begun, milliseconds since the epoch. */
  readonly #startedMs: Float64Array<SharedArrayBuffer>;

  /** Of a ring of so many slots, at most 32; or what another thread's `buffer` is of. */
  constructor(slots: number | SharedArrayBuffer) {
    this.buffer = typeof slots === "number" ? new SharedArrayBuffer(8 * (WORDS + slots)) : slots;
    this.#words = new Int32Array(this.buffer, 0, WORDS);
    this.#startedMs = new Float64Array(this.buffer, 8 * WORDS);
  }

  begin(slot: number, examples: number): void {
    this.#startedMs[slot] = sharedNowMs();
    Atomics.add(this.#words, RUNNING_EXAMPLES, examples);
    Atomics.or(this.#words, RUNNING_SLOTS, 1 << slot);
  }

  end(slot: number, examples: number): void {
    Atomics.and(this.#words, RUNNING_SLOTS, ~(1 << slot));
    Atomics.sub(this.#words, RUNNING_EXAMPLES, examples);
  }

  get examples(): number {
    return Atomics.load(this.#words, RUNNING_EXAMPLES);
  }

  isRunning(slot: number): boolean {
    return (Atomics.load(this.#words, RUNNING_SLOTS) & (1 << slot)) !== 0;
  }

  startedMs(slot: number): number {
    return this.#startedMs[slot] as number;
  }
}

/** Kept: it is a getter that takes as long as reading the clock. */
const { timeOrigin } = performance;

/** Milliseconds since the epoch, with a fraction, on a clock that all threads share and that does not jump. */
export function sharedNowMs(): number {
  return timeOrigin + performance.now();
}
