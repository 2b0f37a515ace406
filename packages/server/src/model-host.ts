import { AcceleratorError, type Device, openDevice } from "@dlrm/accelerator";
import { type EmbeddingStore, openEmbeddingStore } from "@dlrm/embedding";
import { type Bundle, readBundle, readTensors } from "@dlrm/model";
import type { Logger } from "pino";
import { resolveLimits } from "./limits.ts";
import type { ServerLimits } from "./model-metadata.ts";
import { planModel } from "./model-plan.ts";
import { pjrtDeviceParts } from "./pjrt-device.ts";
import { ServerError } from "./server-error.ts";
import { type DevicePrecision, isPjrtDevice, type LimitOptions, type ResolvedOptions } from "./server-options.ts";

/** What the files of a model say, before anything large is read. */
export interface ModelDescription {
  readonly bundle: Bundle;
  readonly limits: ServerLimits;
  /** Batch sizes of the device, ascending; the last holds `limits.maxBatchSize`. */
  readonly buckets: readonly number[];
}

export interface OpenModelOptions {
  readonly options: ResolvedOptions;
  readonly logger: Logger;
  readonly signal: AbortSignal | undefined;
  /** The device is gone: nothing can be scored until `onDeviceReopened`, which comes only if `isForGood` is false. */
  readonly onDeviceLost: (error: Error, isForGood: boolean) => void;
  readonly onDeviceReopened: () => void;
}

/** What a process has of a model once, however many threads score with it. */
export interface ModelHost extends ModelDescription {
  readonly store: EmbeddingStore;
  readonly device: Device;
}

/** Reads what is in the bundle, and what the limits are for it. */
export async function describeBundle(dir: string, options: LimitOptions): Promise<ModelDescription> {
  const bundle = await readBundle(dir);
  const limits = resolveLimits(options, planModel(bundle.spec), bundle.buckets);
  return { bundle, limits, buckets: bucketsUpTo(bundle.buckets, limits.maxBatchSize) };
}

/** Opens a model's tables and its device. If that fails, nothing is left behind. */
export async function openModelHost(description: ModelDescription, load: OpenModelOptions): Promise<ModelHost> {
  const { bundle, buckets } = description;
  const store = await openEmbeddingStore(
    { safetensors: bundle.paths.tables },
    { signal: load.signal, onProgress: progressLogger(load.logger, "loading tables (bytes)") },
  );
  try {
    const device = await openModelDevice(bundle, buckets, load);
    return { ...description, store, device };
  } catch (error) {
    store.close();
    throw error;
  }
}

export async function closeModelHost({ store, device }: ModelHost): Promise<void> {
  await device.close();
  store.close();
}

/** The device's thread has ended, or hangs; calls reject so until it is open again. */
export function isDeviceLost(error: unknown): error is AcceleratorError {
  return error instanceof AcceleratorError && (error.code === "device_lost" || error.code === "device_wedged");
}

/** The bundle's sizes that batches of at most `maxBatchSize` are padded to. */
function bucketsUpTo(buckets: readonly number[], maxBatchSize: number): readonly number[] {
  const last = buckets.findIndex((bucket) => bucket >= maxBatchSize);
  return buckets.slice(0, last + 1);
}

export function bucketFor(buckets: readonly number[], rows: number): number {
  for (const bucket of buckets) if (bucket >= rows) return bucket;
  throw new ServerError("internal", `a batch of ${rows} rows, over the largest bucket, ${buckets.at(-1)}`);
}

/** As `resolveOptions` has checked. */
type PjrtPrecision = Exclude<DevicePrecision, "int8">;

async function openModelDevice(bundle: Bundle, buckets: readonly number[], load: OpenModelOptions): Promise<Device> {
  const { spec } = bundle;
  const { options, logger, signal } = load;
  if (typeof options.device === "function") return await options.device({ bundle, buckets });
  const logProgress = progressLogger(logger, "opening the device (steps)");
  const common = {
    buckets,
    reopen: {
      // One that hangs may still write where it was told to, so that its memory must not be used again.
      onLost: (error: AcceleratorError) => load.onDeviceLost(error, error.code === "device_wedged"),
      onAttemptFailed: (error: AcceleratorError, attempt: number) =>
        logger.error({ err: error, attempt }, "the device could not be opened again"),
      onReopened: load.onDeviceReopened,
    },
    onProgress: ({ done, total }: { done: number; total: number }) => logProgress(done, total),
  };
  if (options.device === "simulated") {
    const weights = await readTensors(bundle.paths.dense, ["simulated.w", "simulated.v"]);
    const [w, v] = ["simulated.w", "simulated.v"].map((name) => weights.get(name)?.data ?? new Float32Array());
    return await openDevice({
      kind: "simulated",
      w: w as Float32Array,
      v: v as Float32Array,
      fixedMicros: options.simulatedFixedMicros,
      microsPerExample: options.simulatedMicrosPerExample,
      ...common,
      ...(signal === undefined ? {} : { signal }),
    });
  }
  const threads = options.deviceThreads > 0 ? { numThreads: options.deviceThreads } : {};
  if (isPjrtDevice(options.device)) {
    return await openDevice({
      kind: "pjrt",
      precision: options.devicePrecision as PjrtPrecision,
      ...(await pjrtDeviceParts(bundle, options.device)),
      ...threads,
      ...common,
    });
  }
  // Not stopped by the signal: a thread that is ended inside onnxruntime takes the whole process with it.
  return await openDevice({
    kind: "onnxruntime",
    precision: options.devicePrecision,
    modelPath: bundle.paths.onnx,
    inputs: [
      { name: "dense", width: [spec.denseFeatures] },
      { name: "pooled", width: [spec.features.length, spec.embeddingDim] },
    ],
    outputs: [{ name: "scores", width: [] }],
    ...threads,
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
