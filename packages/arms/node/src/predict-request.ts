import { fromBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import type { Bundle, FeatureSpec } from "@dlrm/model";
import { DataType, type HostBuffer, PredictRequestSchema } from "@dlrm/proto";
import { invalid, quote, RequestError } from "./request-error.ts";

/** A request that was checked, ids included. */
export interface DecodedRequest {
  readonly batch: number;
  /** [batch, dense features] row-major. */
  readonly dense: Float32Array;
  /** All ids, feature-major: those of feature f are [batch, hot size of f] row-major. */
  readonly ids: Int32Array;
}

/** Dimensions of a shape that an error repeats. */
const MAX_SHOWN_RANK = 8;

/** Decodes Predict requests for one model. */
export class RequestDecoder {
  readonly #bundle: Bundle;
  readonly #maxExamplesPerRequest: number;
  readonly #idsPerExample: number;

  constructor(bundle: Bundle, maxExamplesPerRequest: number) {
    this.#bundle = bundle;
    this.#maxExamplesPerRequest = maxExamplesPerRequest;
    this.#idsPerExample = bundle.spec.features.reduce((sum, { hotSize }) => sum + hotSize, 0);
  }

  /** @throws RequestError `INVALID_ARGUMENT`, `NOT_FOUND`, `RESOURCE_EXHAUSTED`. */
  decode(bytes: Uint8Array): DecodedRequest {
    const request = parse(bytes);
    checkModel(this.#bundle, request.model, request.version);
    const { denseFeatures, features } = this.#bundle.spec;
    const { inputs } = request;
    const count = Object.keys(inputs).length;
    const dense = this.#input(inputs, "dense", count);
    expectType("dense", dense.dataType, [DataType.FLOAT32]);
    const batch = this.#batchOf(dense.shape, denseFeatures);
    expectLayout("dense", dense, batch, denseFeatures, 4);
    const values = float32Of(dense.data);
    checkFinite(values, denseFeatures);
    const ids = new Int32Array(batch * this.#idsPerExample);
    let at = 0;
    for (const feature of features) {
      readIds(feature, this.#input(inputs, feature.name, count), batch, ids, at);
      at += batch * feature.hotSize;
    }
    if (count !== features.length + 1) this.#refuseUnknown(inputs);
    return { batch, dense: values, ids };
  }

  #input(inputs: Readonly<Record<string, HostBuffer>>, name: string, count: number): HostBuffer {
    const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
    if (input !== undefined) return input;
    // Of a name that is wrong, the wrong one tells more than the missing one.
    if (count > this.#bundle.spec.features.length) this.#refuseUnknown(inputs);
    throw invalid(`input "${name}" is missing: expected ${this.#bundle.spec.features.length + 1} inputs, got ${count}`);
  }

  #refuseUnknown(inputs: Readonly<Record<string, HostBuffer>>): void {
    const known = new Set(["dense", ...this.#bundle.spec.features.map(({ name }) => name)]);
    for (const name of Object.keys(inputs)) {
      if (!known.has(name)) {
        throw invalid(`unknown input ${quote(name)}: expected "dense" and ${known.size - 1} features`);
      }
    }
  }

  #batchOf(shape: readonly bigint[], width: number): number {
    const batch = Number(shape[0] ?? 0n);
    if (batch < 1) {
      throw invalid(`input "dense": expected shape [B, ${width}] with at least 1 example, got ${showShape(shape)}`);
    }
    if (batch > this.#maxExamplesPerRequest) {
      throw new RequestError(
        status.RESOURCE_EXHAUSTED,
        `input "dense": expected at most ${this.#maxExamplesPerRequest} examples a request, got ${batch}`,
      );
    }
    return batch;
  }
}

function parse(bytes: Uint8Array) {
  try {
    return fromBinary(PredictRequestSchema, bytes);
  } catch (cause) {
    throw invalid(`the request is not a PredictRequest message: ${String(cause)}`, { cause });
  }
}

/** @throws RequestError `NOT_FOUND`; empty names are any. */
export function checkModel(bundle: Bundle, model: string, version: string): void {
  if (model !== "" && model !== bundle.name) {
    throw new RequestError(status.NOT_FOUND, `unknown model ${quote(model)}: expected ${quote(bundle.name)}`);
  }
  if (version !== "" && version !== bundle.version) {
    throw new RequestError(
      status.NOT_FOUND,
      `unknown version ${quote(version)} of the model ${quote(bundle.name)}: expected ${quote(bundle.version)}`,
    );
  }
}

function expectType(name: string, dataType: number, types: readonly DataType[]): void {
  if (types.includes(dataType as DataType)) return;
  const nameOf = (type: number): string =>
    Object.entries(DataType).find(([, value]) => value === type)?.[0] ?? `DataType(${type})`;
  throw invalid(`input "${name}": expected data type ${types.map(nameOf).join(" or ")}, got ${nameOf(dataType)}`);
}

function expectLayout(name: string, buffer: HostBuffer, batch: number, width: number, itemBytes: number): void {
  const { shape, data } = buffer;
  if (shape.length !== 2 || shape[0] !== BigInt(batch) || shape[1] !== BigInt(width)) {
    throw invalid(`input "${name}": expected shape [${batch}, ${width}], got ${showShape(shape)}`);
  }
  if (data.byteLength !== batch * width * itemBytes) {
    throw invalid(
      `input "${name}": expected ${batch * width * itemBytes} bytes of data for shape [${batch}, ${width}], got ${data.byteLength}`,
    );
  }
}

/** A copy, since the bytes of a message begin anywhere (`slice` of a Buffer would be a view). */
function float32Of(data: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(data).buffer);
}

function checkFinite(values: Float32Array, width: number): void {
  for (let at = 0; at < values.length; at++) {
    const value = values[at] as number;
    if (Number.isFinite(value)) continue;
    throw invalid(
      `input "dense" at [${Math.floor(at / width)}, ${at % width}]: expected a finite number, got ${value}`,
    );
  }
}

/** Copies the ids of one input into `ids` from `at` on, and checks that each is a row of the table. */
function readIds(feature: FeatureSpec, buffer: HostBuffer, batch: number, ids: Int32Array, at: number): void {
  const { name, hotSize, vocabularySize } = feature;
  const { dataType, data } = buffer;
  expectType(name, dataType, [DataType.INT32, DataType.INT64]);
  const wide = dataType === DataType.INT64;
  expectLayout(name, buffer, batch, hotSize, wide ? 8 : 4);
  const count = batch * hotSize;
  if (wide) {
    const words = new Int32Array(new Uint8Array(data).buffer);
    for (let i = 0; i < count; i++) {
      // The high half of a valid id is 0, and then its low half is the id.
      if (words[2 * i + 1] !== 0) throw outOfRange(feature, i, new BigInt64Array(words.buffer)[i] as bigint);
      ids[at + i] = words[2 * i] as number;
    }
  } else {
    new Uint8Array(ids.buffer, at * 4, count * 4).set(data);
  }
  for (let i = 0; i < count; i++) {
    const id = ids[at + i] as number;
    if (id < 0 || id >= vocabularySize) throw outOfRange(feature, i, wide ? BigInt(id >>> 0) : id);
  }
}

function outOfRange({ name, hotSize, vocabularySize }: FeatureSpec, index: number, id: number | bigint): RequestError {
  return invalid(
    `input "${name}" at [${Math.floor(index / hotSize)}, ${index % hotSize}]: expected an id from 0 to ${vocabularySize - 1}, got ${id}`,
  );
}

function showShape(shape: readonly bigint[]): string {
  return shape.length > MAX_SHOWN_RANK ? `${shape.length} dimensions` : `[${shape.join(", ")}]`;
}
