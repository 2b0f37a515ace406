import { readBundle, readTensors, type Bundle } from "@dlrm/model";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { Device } from "./device.ts";
import type { DeviceSettings } from "./device-messages.ts";
import { HealthHandlers } from "./health-service.ts";
import { largestMessageBytes, modelMetadata } from "./model-metadata.ts";
import { RequestDecoder } from "./predict-request.ts";
import { PredictionHandlers } from "./prediction-service.ts";
import { Predictor } from "./predictor.ts";
import { shutDown } from "./shut-down.ts";

export interface NodeServerOptions {
  readonly bundle: string;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly platform: "cpu" | "cuda" | "sim";
  /** Threads of the dense network on the CPU; 0 is one for each CPU that this process may use. */
  readonly numThreads: number;
  /** Largest batch of the device, examples. */
  readonly maxBatchSize: number;
  readonly log: (line: string) => void;
}

/** A server that listens; it answers predictions once `load` is done. */
export class NodeServer {
  readonly port: number;
  /** Rejects if the device ends by itself. */
  failed: Promise<never> = new Promise(() => undefined);
  readonly #options: NodeServerOptions;
  readonly #bundle: Bundle;
  readonly #server: Server;
  readonly #prediction: PredictionHandlers;
  readonly #health: HealthHandlers;
  #device: Device | undefined;

  private constructor(
    options: NodeServerOptions,
    parts: { bundle: Bundle; server: Server; prediction: PredictionHandlers; health: HealthHandlers; port: number },
  ) {
    this.#options = options;
    this.#bundle = parts.bundle;
    this.#server = parts.server;
    this.#prediction = parts.prediction;
    this.#health = parts.health;
    this.port = parts.port;
  }

  /** Reads what the model is and listens; health says NOT_SERVING. Rejects if the bundle or the port cannot be had. */
  static async listen(options: NodeServerOptions): Promise<NodeServer> {
    const bundle = await readBundle(options.bundle);
    const server = new Server({
      "grpc.max_receive_message_length": largestMessageBytes(bundle, maxExamplesPerRequest(options)),
      "grpc.max_send_message_length": -1,
      // A port of another server is an error, not a share of its connections.
      "grpc.so_reuseport": 0,
    });
    const prediction = new PredictionHandlers();
    const health = new HealthHandlers();
    server.addService(PredictionHandlers.definition, prediction.implementation());
    server.addService(HealthHandlers.definition, health.implementation());
    const { host } = options;
    const address = `${host.includes(":") ? `[${host}]` : host}:${options.port}`;
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) => {
        if (error === null) resolve(bound);
        else reject(new Error(`cannot listen on ${address}: ${error.message}`, { cause: error }));
      });
    });
    return new NodeServer(options, { bundle, server, prediction, health, port });
  }

  /** Reads the tables, starts the device, runs it once, and says SERVING. */
  async load(): Promise<void> {
    const bundle = this.#bundle;
    const { spec } = bundle;
    const { maxBatchSize, log } = this.#options;
    const names = spec.features.map(({ name }) => name);
    const tensors = await readTensors(bundle.paths.tables, names);
    const tables = names.map((name) => tensors.get(name)?.data as Float32Array);
    const bytes = tables.reduce((sum, table) => sum + table.byteLength, 0);
    log(`tables: ${tables.length}, ${(bytes / 2 ** 20).toFixed(0)} MiB`);
    const fitting = bundle.buckets.filter((bucket) => bucket <= maxBatchSize);
    const buckets = fitting.length === 0 ? [maxBatchSize] : fitting;
    const pooledWidth = spec.features.length * spec.embeddingDim;
    const device = await Device.open({
      settings: await this.#deviceSettings(),
      denseFeatures: spec.denseFeatures,
      pooledWidth,
      buckets,
    });
    this.#device = device;
    this.failed = device.failed;
    const slot = await device.take(1);
    await device.run(slot, 1);
    device.release(slot);
    const maxExamples = maxExamplesPerRequest(this.#options);
    const limits = {
      maxMessageBytes: largestMessageBytes(bundle, maxExamples),
      maxExamplesPerRequest: maxExamples,
      maxBatchSize: device.maxBatch,
    };
    this.#prediction.serve({
      bundle,
      decoder: new RequestDecoder(bundle, maxExamples),
      predictor: new Predictor(spec, tables, device),
      metadata: modelMetadata(bundle, limits, buckets),
    });
    this.#health.serving = true;
  }

  /** Says NOT_SERVING, refuses new requests and answers those that are in, for at most `timeoutMs`. */
  async drain(timeoutMs: number): Promise<void> {
    this.#health.serving = false;
    this.#prediction.drain();
    this.#health.endWatches();
    await shutDown(this.#server, timeoutMs);
    await this.#device?.close();
  }

  async #deviceSettings(): Promise<DeviceSettings> {
    const { spec, paths } = this.#bundle;
    const { platform, numThreads } = this.#options;
    if (platform !== "sim") {
      return {
        kind: "onnxruntime",
        modelPath: paths.onnx,
        executionProviders: [platform],
        numThreads,
        denseFeatures: spec.denseFeatures,
        features: spec.features.length,
        embeddingDim: spec.embeddingDim,
      };
    }
    const weights = await readTensors(paths.dense, ["simulated.w", "simulated.v"]);
    return {
      kind: "simulated",
      w: weights.get("simulated.w")?.data as Float32Array,
      v: weights.get("simulated.v")?.data as Float32Array,
    };
  }
}

/** As the other arms have it: 4096, or the largest batch if that is larger. */
function maxExamplesPerRequest({ maxBatchSize }: NodeServerOptions): number {
  return Math.max(4096, maxBatchSize);
}
