import { create, toBinary } from "@bufbuild/protobuf";
import { DataType, HostBufferSchema, PredictRequestSchema, type HostBuffer } from "@dlrm/proto";
import { grpcFrame } from "./grpc-frame.ts";
import { idSampler, type IdDistribution, type IdSampler } from "./id-distribution.ts";
import type { ModelShape } from "./load-options.ts";
import { Random } from "./random.ts";
import { examplesOf, meanExamples, type RequestSize, REQUESTS_A_BLOCK } from "./request-size.ts";

/** Fewest requests of a pool: fewer, and what is measured is the server's cache. */
const MIN_REQUESTS = 64;

export interface RequestPoolOptions {
  readonly shape: ModelShape;
  readonly model: string;
  readonly idType: "int32" | "int64";
  readonly requestSize: RequestSize;
  readonly idDistribution: IdDistribution;
  readonly seed: number;
  /** Examples of all pools of a run together. */
  readonly poolExamples: number;
  /** Which requests of the run are ours: number `part`, `part + parts`, … */
  readonly part: number;
  readonly parts: number;
}

/** Requests encoded before the run, as whole gRPC frames, cycled through. */
export class RequestPool {
  readonly #frames: readonly Uint8Array[];
  readonly #examples: readonly number[];
  #next = 0;
  /** Examples of the request that `next` gave last. */
  examples = 0;
  /** Memory of all frames. */
  readonly bytes: number;

  /** @param examples of each frame. */
  constructor(frames: readonly Uint8Array[], examples: readonly number[]) {
    this.#frames = frames;
    this.#examples = examples;
    this.bytes = frames.reduce((sum, frame) => sum + frame.length, 0);
  }

  get requests(): number {
    return this.#frames.length;
  }

  next(): Uint8Array {
    const frame = this.#frames[this.#next] as Uint8Array;
    this.examples = this.#examples[this.#next] as number;
    this.#next = this.#next + 1 === this.#frames.length ? 0 : this.#next + 1;
    return frame;
  }
}

/** Makes the pool of one load process. Request number r depends on the seed and r alone. */
export function buildRequestPool(options: RequestPoolOptions): RequestPool {
  const { poolExamples, requestSize, parts, part } = options;
  // A mixed load has every size in its share.
  const fewest = requestSize === "mlperf" ? 2 * REQUESTS_A_BLOCK : MIN_REQUESTS;
  const requests = Math.max(fewest, Math.ceil(poolExamples / meanExamples(requestSize) / parts));
  const sizeOf = examplesOf(requestSize, options.seed);
  const samplers = options.shape.features.map((feature, i) =>
    idSampler(options.idDistribution, feature.vocabularySize, i),
  );
  const frames: Uint8Array[] = [];
  const examples: number[] = [];
  for (let i = 0; i < requests; i++) {
    const request = part + i * parts;
    examples.push(sizeOf(request));
    frames.push(encodeRequest(options, samplers, request, sizeOf(request)));
  }
  return new RequestPool(frames, examples);
}

function encodeRequest(
  options: RequestPoolOptions,
  samplers: readonly IdSampler[],
  request: number,
  requestSize: number,
): Uint8Array {
  const { shape, model } = options;
  const random = new Random(options.seed, request);
  const inputs: Record<string, HostBuffer> = {};
  if (shape.denseFeatures > 0) {
    const dense = new DataView(new ArrayBuffer(requestSize * shape.denseFeatures * 4));
    for (let at = 0; at < dense.byteLength; at += 4) dense.setFloat32(at, random.unit(), true);
    inputs["dense"] = tensor(DataType.FLOAT32, requestSize, shape.denseFeatures, dense);
  }
  for (const [i, feature] of shape.features.entries()) {
    const sample = samplers[i] as IdSampler;
    const ids = requestSize * feature.hotSize;
    const wide = options.idType === "int64";
    const data = new DataView(new ArrayBuffer(ids * (wide ? 8 : 4)));
    for (let id = 0; id < ids; id++) {
      if (wide) data.setBigInt64(id * 8, BigInt(sample(random)), true);
      else data.setInt32(id * 4, sample(random), true);
    }
    inputs[feature.name] = tensor(wide ? DataType.INT64 : DataType.INT32, requestSize, feature.hotSize, data);
  }
  return grpcFrame(toBinary(PredictRequestSchema, create(PredictRequestSchema, { model, inputs })));
}

function tensor(dataType: DataType, rows: number, width: number, data: DataView<ArrayBuffer>): HostBuffer {
  return create(HostBufferSchema, {
    dataType,
    shape: [BigInt(rows), BigInt(width)],
    data: new Uint8Array(data.buffer),
  });
}
