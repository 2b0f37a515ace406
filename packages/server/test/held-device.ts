import { type Device, openDevice } from "@dlrm/accelerator";
import type { OpenDeviceContext } from "@dlrm/server";

/** A device that begins to work only when it is let go; its scores are the example's first dense feature. */
export class HeldDevice implements Disposable {
  /** Buckets of the calls that have begun, in order; the server's warm-up is the first. */
  readonly begun: number[] = [];
  #hold: Promise<void> | undefined;
  #letGo: () => void = () => {};
  #onBegin: (() => void) | undefined;
  #fail: Error | undefined;

  readonly open = async ({ bundle, buckets }: OpenDeviceContext): Promise<Device> => {
    const { denseFeatures, features, embeddingDim } = bundle.spec;
    return await openDevice({
      kind: "reference",
      buckets,
      inputs: [
        { name: "dense", width: [denseFeatures] },
        { name: "pooled", width: [features.length, embeddingDim] },
      ],
      outputs: [{ name: "scores", width: [] }],
      run: async (bucket, inputs, outputs) => {
        this.begun.push(bucket);
        this.#onBegin?.();
        await this.#hold;
        if (this.#fail !== undefined) throw this.#fail;
        for (let row = 0; row < bucket; row++) outputs["scores"]![row] = inputs["dense"]![row * denseFeatures]!;
      },
    });
  };

  /** From now on calls begin, but do not end. Returns a promise of the next beginning. */
  hold(): Promise<void> {
    this.#hold = new Promise((resolve) => {
      this.#letGo = resolve;
    });
    return new Promise((resolve) => {
      this.#onBegin = resolve;
    });
  }

  /** Ends the call that is held, and lets later ones through. */
  release(): void {
    this.#hold = undefined;
    this.#letGo();
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** Lets later calls, and the one that is held, fail; undefined for success again. */
  failWith(error: Error | undefined): void {
    this.#fail = error;
  }
}
