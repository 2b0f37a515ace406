import type { ModelSpec } from "@dlrm/model";
import type { Device } from "./device.ts";
import { gatherFeature } from "./gather.ts";
import type { DecodedRequest } from "./predict-request.ts";

/** Scores requests, each alone: gathers its rows, then runs the device. */
export class Predictor {
  readonly #spec: ModelSpec;
  /** One a feature, [vocabulary size, embedding dim]. */
  readonly #tables: readonly Float32Array[];
  readonly #device: Device;

  constructor(spec: ModelSpec, tables: readonly Float32Array[], device: Device) {
    this.#spec = spec;
    this.#tables = tables;
    this.#device = device;
  }

  /** @param wanted asked before work is begun; a request that nobody waits for any more gives undefined. */
  async score(request: DecodedRequest, wanted: () => boolean): Promise<Float32Array | undefined> {
    const { batch } = request;
    const scores = new Float32Array(batch);
    const step = this.#device.maxBatch;
    for (let from = 0; from < batch; from += step) {
      const examples = Math.min(step, batch - from);
      const slot = await this.#device.take(examples);
      try {
        if (!wanted()) return undefined;
        this.#gather(request, from, examples, slot.buffers.pooled);
        const { denseFeatures } = this.#spec;
        slot.buffers.dense.set(request.dense.subarray(from * denseFeatures, (from + examples) * denseFeatures));
        await this.#device.run(slot, examples);
        scores.set(slot.buffers.scores.subarray(0, examples), from);
      } finally {
        this.#device.release(slot);
      }
    }
    return scores;
  }

  #gather({ batch, ids }: DecodedRequest, from: number, examples: number, pooled: Float32Array): void {
    const { features, embeddingDim } = this.#spec;
    const stride = features.length * embeddingDim;
    let idsAt = 0;
    for (const [index, { hotSize }] of features.entries()) {
      const table = this.#tables[index] as Float32Array;
      gatherFeature(
        table,
        embeddingDim,
        ids,
        idsAt + from * hotSize,
        examples,
        hotSize,
        pooled,
        index * embeddingDim,
        stride,
      );
      idsAt += batch * hotSize;
    }
  }
}
