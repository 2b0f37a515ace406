import type { ScoringRequest } from "./input-collector.ts";

/** Arrays that one request is decoded into. */
export interface InputArrays {
  /** What stands in them, once it has been decoded. */
  readonly request: ScoringRequest;
  readonly dense: Float32Array<ArrayBuffer>;
  readonly denseBytes: Uint8Array<ArrayBuffer>;
  /**
   * For few examples over shared memory, by which the gather kernel knows it without asking for its address each time; V8
   * copies much into shared memory more slowly than into other.
   */
  readonly ids: Int32Array;
  readonly idBytes: Uint8Array;
}

/** Examples, over all the arrays that are kept. */
const MAX_KEPT_EXAMPLES = 16_384;

/** Examples of a request whose ids stand in shared memory. */
const MAX_SHARED_EXAMPLES = 4;

/**
 * Arrays that requests are decoded into, one set for each number of examples, used again and again: what stands in them is
 * valid until the next request of as many examples is decoded.
 */
export class InputBuffers {
  readonly #denseFeatures: number;
  readonly #idsPerExample: number;
  readonly #arrays = new Map<number, InputArrays>();
  #keptExamples = 0;

  constructor(denseFeatures: number, idsPerExample: number) {
    this.#denseFeatures = denseFeatures;
    this.#idsPerExample = idsPerExample;
  }

  for(batch: number): InputArrays {
    return this.#arrays.get(batch) ?? this.#make(batch);
  }

  #make(batch: number): InputArrays {
    const dense = new Float32Array(new ArrayBuffer(batch * this.#denseFeatures * 4));
    const idByteCount = batch * this.#idsPerExample * 4;
    const ids = new Int32Array(
      batch <= MAX_SHARED_EXAMPLES ? new SharedArrayBuffer(idByteCount) : new ArrayBuffer(idByteCount),
    );
    const arrays = {
      request: { batch, dense, ids },
      dense,
      denseBytes: new Uint8Array(dense.buffer),
      ids,
      idBytes: new Uint8Array(ids.buffer),
    };
    if (this.#keptExamples + batch > MAX_KEPT_EXAMPLES) {
      this.#arrays.clear();
      this.#keptExamples = 0;
    }
    if (batch <= MAX_KEPT_EXAMPLES) {
      this.#arrays.set(batch, arrays);
      this.#keptExamples += batch;
    }
    return arrays;
  }
}
