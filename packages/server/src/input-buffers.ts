/** Arrays that one request is decoded into. */
export interface InputArrays {
  readonly dense: Float32Array<ArrayBuffer>;
  readonly denseBytes: Uint8Array<ArrayBuffer>;
  /** Over shared memory, by which the gather kernel knows it without asking for its address each time. */
  readonly ids: Int32Array<SharedArrayBuffer>;
  readonly idBytes: Uint8Array<SharedArrayBuffer>;
}

/** Examples, over all the arrays that are kept. */
const MAX_KEPT_EXAMPLES = 16_384;

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
    const ids = new Int32Array(new SharedArrayBuffer(batch * this.#idsPerExample * 4));
    const arrays = { dense, denseBytes: new Uint8Array(dense.buffer), ids, idBytes: new Uint8Array(ids.buffer) };
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
