import { AcceleratorError, type Device, openDevice } from "@dlrm/accelerator";
import { Batcher, BatcherError } from "@dlrm/batcher";
import { ConnectError } from "@connectrpc/connect";
import { type EmbeddingStore, type GatherPlan, openEmbeddingStore } from "@dlrm/embedding";
import { type Bundle, readBundle, readTensors } from "@dlrm/model";
import type { Logger } from "pino";
import { BatchSlot } from "./batch-slot.ts";
import { outOfRange, type ScoringRequest } from "./input-collector.ts";
import { resolveLimits } from "./limits.ts";
import type { ServerLimits } from "./model-metadata.ts";
import { type InputPlan, type ModelPlan, planModel } from "./model-plan.ts";
import { ServerError } from "./server-error.ts";
import type { LimitOptions, ResolvedOptions } from "./server-options.ts";
import { joinScores, sliceRequest } from "./split-request.ts";

type Scores = Float32Array<ArrayBuffer>;

export interface LoadModelOptions {
  readonly options: ResolvedOptions;
  readonly limits: LimitOptions;
  readonly logger: Logger;
  readonly signal: AbortSignal | undefined;
  /** The device is gone: nothing can be scored any more. */
  readonly onDeviceLost: (error: Error) => void;
}

export interface PredictOptions {
  readonly signal: AbortSignal;
  /** Milliseconds from now until the caller stops waiting; undefined for as long as it takes. */
  readonly deadlineMs: number | undefined;
}

/** A model that scores: its tables, its device, and the batcher between them and the requests. */
export class LoadedModel {
  readonly name: string;
  readonly version: string;
  readonly spec: Bundle["spec"];
  readonly plan: ModelPlan;
  readonly limits: ServerLimits;
  readonly maxExamplesPerRequest: number;
  /** Batch sizes of the device, ascending. */
  readonly buckets: readonly number[];
  readonly kernel: EmbeddingStore["kernel"];
  readonly deviceName: string;
  readonly #store: EmbeddingStore;
  readonly #gatherPlan: GatherPlan;
  readonly #device: Device;
  readonly #batcher: Batcher<ScoringRequest, Scores>;
  readonly #freeSlots: BatchSlot[] = [];
  readonly #onDeviceLost: (error: Error) => void;

  /** Opens the bundle in `options.bundle` and everything it needs, and warms it up. */
  static async load(load: LoadModelOptions): Promise<LoadedModel> {
    const bundle = await readBundle(load.options.bundle);
    const plan = planModel(bundle.spec);
    const limits = resolveLimits(load.limits, plan, bundle.buckets);
    const buckets = bucketsUpTo(bundle.buckets, limits.maxBatchSize);
    const store = await openEmbeddingStore(
      { safetensors: bundle.paths.tables },
      { signal: load.signal, onProgress: progressLogger(load.logger, "loading tables (bytes)") },
    );
    try {
      const device = await openModelDevice(bundle, buckets, load);
      try {
        const model = new LoadedModel({ bundle, plan, limits, buckets, store, device, load });
        await model.#warmUp();
        return model;
      } catch (error) {
        await device.close();
        throw error;
      }
    } catch (error) {
      store.close();
      throw error;
    }
  }

  private constructor(parts: {
    readonly bundle: Bundle;
    readonly plan: ModelPlan;
    readonly limits: ServerLimits;
    readonly buckets: readonly number[];
    readonly store: EmbeddingStore;
    readonly device: Device;
    readonly load: LoadModelOptions;
  }) {
    const { bundle, plan, limits, buckets, store, device, load } = parts;
    const { options, logger } = load;
    this.name = bundle.name;
    this.version = bundle.version;
    this.spec = bundle.spec;
    this.plan = plan;
    this.limits = limits;
    this.maxExamplesPerRequest = limits.maxExamplesPerRequest;
    this.buckets = buckets;
    this.kernel = store.kernel;
    this.deviceName = device.name;
    this.#store = store;
    this.#device = device;
    this.#onDeviceLost = load.onDeviceLost;
    this.#gatherPlan = store.plan(bundle.spec.features.map(({ name, hotSize }) => ({ table: name, hotSize })));
    const rows = buckets.at(-1) as number;
    for (let slot = 0; slot < options.maxInFlightBatches; slot++) {
      const layout = { rows, denseFeatures: plan.denseFeatures, pooledWidth: this.#gatherPlan.outputWidth };
      this.#freeSlots.push(new BatchSlot(layout));
    }
    this.#batcher = new Batcher<ScoringRequest, Scores>({
      run: (batch) => this.#run(batch.items, batch.signal),
      sizeOf: (request) => request.batch,
      maxBatchSize: limits.maxBatchSize,
      // The padding of a batch to the device's next size is known to the batcher, which learns what each size costs.
      allowedBatchSizes: [...buckets.slice(0, -1), limits.maxBatchSize],
      policy: options.batching,
      batchTimeoutMicros: options.batchTimeoutMicros,
      maxInFlightBatches: options.maxInFlightBatches,
      maxEnqueuedItems: limits.maxEnqueuedExamples,
      maxEnqueuedSize: Math.max(limits.maxEnqueuedExamples, limits.maxBatchSize),
      split: (request, maxSize) => this.#split(request, maxSize),
      join: joinScores,
      hooks: {
        onBatchEnd: ({ items, size, paddedSize, flushReason, oldestWaitMs, queuedItems }, runMs, error) => {
          logger.trace(
            {
              requests: items,
              examples: size,
              padded: paddedSize - size,
              flushReason,
              oldestWaitMs,
              runMs,
              queuedItems,
            },
            error === undefined ? "batch" : "batch failed",
          );
        },
      },
    });
  }

  /** Scores a request: [B]. Throws `ServerError`. */
  async predict(request: ScoringRequest, { signal, deadlineMs }: PredictOptions): Promise<Scores> {
    const wrong = this.#gatherPlan.findOutOfVocabulary(request.ids, request.batch);
    if (wrong !== undefined) {
      throw outOfRange(this.plan.inputs[wrong.feature + 1] as InputPlan, wrong.example, wrong.position, wrong.id);
    }
    try {
      return await this.#batcher.submit(request, deadlineMs === undefined ? { signal } : { signal, deadlineMs });
    } catch (error) {
      throw this.#translate(error, signal);
    }
  }

  /** Takes nothing new; resolves when what was taken has been scored. */
  async drain(): Promise<void> {
    await this.#batcher.drain();
  }

  /** Frees everything; what still waits is refused. */
  async close(): Promise<void> {
    this.#batcher.close();
    await this.#device.close();
    this.#store.close();
  }

  async #run(requests: readonly ScoringRequest[], signal: AbortSignal | undefined): Promise<readonly Scores[]> {
    const slot = this.#freeSlots.pop();
    if (slot === undefined) throw new ServerError("internal", "no free slot for a batch");
    let reusable = true;
    try {
      let row = 0;
      for (const request of requests) {
        slot.place(request, this.#gatherPlan, row);
        row += request.batch;
      }
      const bucket = bucketFor(this.buckets, row);
      const options = signal === undefined ? { rows: row } : { rows: row, signal };
      await this.#device.execute(bucket, slot.inputs, slot.outputs, options);
      row = 0;
      return requests.map((request) => {
        const scores = slot.scores(row, request.batch);
        row += request.batch;
        return scores;
      });
    } catch (error) {
      if (isDeviceLost(error)) {
        // Its thread may still write into the slot.
        reusable = false;
        this.#onDeviceLost(error);
      }
      throw error;
    } finally {
      if (reusable) this.#freeSlots.push(slot);
    }
  }

  #split(request: ScoringRequest, maxSize: number): readonly ScoringRequest[] {
    const parts: ScoringRequest[] = [];
    for (let start = 0; start < request.batch; start += maxSize) {
      parts.push(sliceRequest(this.plan, request, start, Math.min(maxSize, request.batch - start)));
    }
    return parts;
  }

  #translate(error: unknown, signal: AbortSignal): unknown {
    if (!(error instanceof BatcherError)) return error;
    switch (error.code) {
      case "overloaded": {
        const { limit, current, retryAfterMs } = error;
        return new ServerError(
          "resource_exhausted",
          `the server is overloaded: ${current} of at most ${limit} ` +
            `${error.limitName === "maxEnqueuedItems" ? "requests" : "examples"} wait (--max-enqueued-examples)`,
          { cause: error, retryAfterMs },
        );
      }
      case "draining":
      case "closed":
        return new ServerError("unavailable", "the server is draining: try another one", { cause: error });
      case "deadline_exceeded":
        return new ServerError("deadline_exceeded", "the deadline passed before the request was scored", {
          cause: error,
        });
      case "cancelled":
        // The signal's reason tells a passed deadline from a caller who went away.
        return signal.reason instanceof ConnectError || signal.reason instanceof ServerError
          ? signal.reason
          : new ServerError("cancelled", "the request was cancelled", { cause: error });
      default:
        return isDeviceLost(error.cause)
          ? new ServerError("unavailable", `the device is lost: ${error.cause.message}`, { cause: error })
          : new ServerError("internal", `scoring failed: ${messageOf(error.cause ?? error)}`, { cause: error });
    }
  }

  /** Runs the whole path once, so that the first request finds everything compiled and in place. */
  async #warmUp(): Promise<void> {
    const { idsPerExample, denseFeatures } = this.plan;
    const batch = 1;
    const request = { batch, dense: new Float32Array(denseFeatures), ids: new Int32Array(idsPerExample) };
    await this.#run([request], undefined);
  }
}

function isDeviceLost(error: unknown): error is AcceleratorError {
  return error instanceof AcceleratorError && (error.code === "device_lost" || error.code === "device_wedged");
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The bundle's sizes that batches of at most `maxBatchSize` are padded to. */
function bucketsUpTo(buckets: readonly number[], maxBatchSize: number): readonly number[] {
  const last = buckets.findIndex((bucket) => bucket >= maxBatchSize);
  return buckets.slice(0, last + 1);
}

function bucketFor(buckets: readonly number[], rows: number): number {
  for (const bucket of buckets) if (bucket >= rows) return bucket;
  throw new ServerError("internal", `a batch of ${rows} rows, over the largest bucket, ${buckets.at(-1)}`);
}

async function openModelDevice(bundle: Bundle, buckets: readonly number[], load: LoadModelOptions): Promise<Device> {
  const { spec } = bundle;
  const { options, logger, signal } = load;
  if (typeof options.device === "function") return await options.device({ bundle, buckets });
  const logProgress = progressLogger(logger, "opening the device (steps)");
  const common = {
    buckets,
    onProgress: ({ done, total }: { done: number; total: number }) => logProgress(done, total),
  };
  if (options.device === "simulated") {
    const weights = await readTensors(bundle.paths.dense, ["simulated.w", "simulated.v"]);
    const [w, v] = ["simulated.w", "simulated.v"].map((name) => weights.get(name)?.data ?? new Float32Array());
    return await openDevice({
      kind: "simulated",
      w: w as Float32Array,
      v: v as Float32Array,
      ...common,
      ...(signal === undefined ? {} : { signal }),
    });
  }
  // Not stopped by the signal: a thread that is ended inside onnxruntime takes the whole process with it.
  return await openDevice({
    kind: "onnxruntime",
    modelPath: bundle.paths.onnx,
    inputs: [
      { name: "dense", width: [spec.denseFeatures] },
      { name: "pooled", width: [spec.features.length, spec.embeddingDim] },
    ],
    outputs: [{ name: "scores", width: [] }],
    ...(options.deviceThreads > 0 ? { numThreads: options.deviceThreads } : {}),
    ...common,
  });
}

/** Quick starts say nothing; slow ones say at this interval how far they are, milliseconds. */
const PROGRESS_INTERVAL_MS = 2000;

function progressLogger(logger: Logger, what: string): (done: number, total: number) => void {
  let loggedAt = performance.now();
  return (done, total) => {
    const now = performance.now();
    if (now - loggedAt < PROGRESS_INTERVAL_MS) return;
    loggedAt = now;
    logger.info({ done, total }, `${what}: ${total === 0 ? 100 : Math.floor((done * 100) / total)} %`);
  };
}
