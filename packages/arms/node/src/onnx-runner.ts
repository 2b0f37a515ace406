import { availableParallelism } from "node:os";
import type * as OnnxRuntime from "onnxruntime-node";
import type { InferenceSession } from "onnxruntime-node";
import type { DeviceSettings, SlotBuffers } from "./device-messages.ts";

type OnnxSettings = Extract<DeviceSettings, { kind: "onnxruntime" }>;

/** The model's dense network in onnxruntime, for any number of examples. */
export class OnnxRunner {
  readonly #ort: typeof OnnxRuntime;
  readonly #session: InferenceSession;
  readonly #settings: OnnxSettings;

  private constructor(ort: typeof OnnxRuntime, session: InferenceSession, settings: OnnxSettings) {
    this.#ort = ort;
    this.#session = session;
    this.#settings = settings;
  }

  static async open(settings: OnnxSettings): Promise<OnnxRunner> {
    const ort = await import("onnxruntime-node");
    const session = await ort.InferenceSession.create(settings.modelPath, {
      executionProviders: settings.executionProviders,
      // Without a number onnxruntime makes a thread for each core of the machine, and moves it to CPUs that this process may not use.
      intraOpNumThreads: settings.numThreads === 0 ? availableParallelism() : settings.numThreads,
      interOpNumThreads: 1,
      executionMode: "sequential",
      graphOptimizationLevel: "all",
      // A thread that spins for work takes the core from the one that serves requests.
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    });
    return new OnnxRunner(ort, session, settings);
  }

  async run({ dense, pooled, scores }: SlotBuffers, batch: number): Promise<void> {
    const { denseFeatures, features, embeddingDim } = this.#settings;
    const { Tensor } = this.#ort;
    const outputs = await this.#session.run(
      {
        dense: new Tensor("float32", dense.subarray(0, batch * denseFeatures), [batch, denseFeatures]),
        pooled: new Tensor("float32", pooled.subarray(0, batch * features * embeddingDim), [
          batch,
          features,
          embeddingDim,
        ]),
      },
      ["scores"],
    );
    scores.set(outputs["scores"]?.data as Float32Array);
  }
}
