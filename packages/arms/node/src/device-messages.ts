/** What the dense network runs on. */
export type DeviceSettings =
  | {
      readonly kind: "onnxruntime";
      readonly modelPath: string;
      readonly executionProviders: readonly string[];
      /** Threads of one operator; 0 is one for each CPU that this process may use. */
      readonly numThreads: number;
      /** Numbers of one example, as the model's dimensions after the batch. */
      readonly denseFeatures: number;
      readonly features: number;
      readonly embeddingDim: number;
    }
  | {
      /** `scores = sigmoid(w · dense + v · pooled)`, busy for 350 µs + 4 µs an example of the bucket. */
      readonly kind: "simulated";
      readonly w: Float32Array;
      readonly v: Float32Array;
    };

/** Buffers of one call, in shared memory: written by the one thread and read by the other, never by both. */
export interface SlotBuffers {
  /** Examples that fit. */
  readonly bucket: number;
  /** [bucket, dense features] */
  readonly dense: Float32Array<SharedArrayBuffer>;
  /** [bucket, features × embedding dim] */
  readonly pooled: Float32Array<SharedArrayBuffer>;
  /** [bucket] */
  readonly scores: Float32Array<SharedArrayBuffer>;
}

export type ToDevice =
  | { readonly kind: "slot"; readonly slot: number; readonly buffers: SlotBuffers }
  | { readonly kind: "run"; readonly slot: number; readonly batch: number }
  | { readonly kind: "close" };

export type FromDevice =
  | { readonly kind: "ready" }
  | { readonly kind: "done"; readonly slot: number; readonly error?: string };
