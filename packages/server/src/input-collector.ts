import { DataType } from "@dlrm/proto";
import type { InputArrays } from "./input-buffers.ts";
import type { InputPlan, ModelPlan } from "./model-plan.ts";
import { quote, ServerError } from "./server-error.ts";

/**
 * A request as the engine works with it. One that was decoded is overwritten by the next one, the object and its arrays:
 * whoever needs it longer copies it.
 */
export interface ScoringRequest {
  /** Examples, B. */
  readonly batch: number;
  /** [B, dense features], row-major. */
  readonly dense: Float32Array;
  /** Feature-major: id `position` of `example` in feature f stands at B · idOffset(f) + example · hotSize(f) + position. */
  readonly ids: Int32Array;
}

export type Dimension = number | bigint;

/** More dimensions than this are not kept: no valid tensor has them. */
export const MAX_KEPT_DIMENSIONS = 64;

/** Where the data of each input stands in the message, by the input's position in the plan. */
export interface DataRanges {
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

/** Up to this many bytes are copied faster one by one than by making a view of them. */
const SMALL_COPY_BYTES = 64;

const INT32_BYTES = 4;
const INT64_BYTES = 8;
const NO_DIMENSIONS: readonly Dimension[] = [];

const dataTypeNames = new Map<number, string>(Object.entries(DataType).map(([name, value]) => [value, name]));

function dataTypeName(value: number): string {
  return dataTypeNames.get(value) ?? `${value} (unknown)`;
}

function shapeText(dimensions: readonly Dimension[]): string {
  const shown = dimensions.slice(0, 8).join(", ");
  if (dimensions.length <= 8) return `[${shown}]`;
  return `[${shown}, … ${dimensions.length} dimensions${dimensions.length === MAX_KEPT_DIMENSIONS ? " or more" : ""}]`;
}

/**
 * Takes the tensors of one request, in any order, checks each against the model and copies it to where the engine reads
 * it. One copy, from the message into the arrays of the result.
 *
 * Everything wrong is an `invalid_argument` or `resource_exhausted` error that names the input, what was expected and
 * what came. Ids are checked here only to fit an int32; their range is the embedding store's to check.
 */
export class InputCollector {
  readonly #plan: ModelPlan;
  readonly #maxExamples: number;
  readonly #seen: Uint8Array;
  #seenCount = 0;
  /** Name of the input that fixed the number of examples. */
  #batchFrom = "";
  #batch = 0;
  #arrays: InputArrays | undefined = undefined;
  readonly #ranges: { readonly starts: Int32Array; readonly ends: Int32Array };
  #isAllInt32 = true;

  constructor(plan: ModelPlan, maxExamples: number) {
    this.#plan = plan;
    this.#maxExamples = maxExamples;
    this.#seen = new Uint8Array(plan.inputs.length);
    this.#ranges = { starts: new Int32Array(plan.inputs.length), ends: new Int32Array(plan.inputs.length) };
  }

  /** The model's input of this name. */
  input(name: string): InputPlan {
    const input = this.#plan.inputByName.get(name);
    if (input !== undefined) return input;
    throw new ServerError(
      "invalid_argument",
      `unknown input ${quote(name)}: the model's inputs are ${inputRange(this.#plan.inputs)}`,
    );
  }

  /** Adds the tensor whose bytes are `bytes[start, end)`. */
  add(
    input: InputPlan,
    dataType: number,
    dimensions: readonly Dimension[] = NO_DIMENSIONS,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): void {
    if (this.#seen[input.index] !== 0) {
      throw new ServerError("invalid_argument", `input ${quote(input.name)} came twice: expected once`);
    }
    const elementBytes = elementSize(input, dataType);
    this.#checkShape(input, dimensions, elementBytes, end - start);
    this.#seen[input.index] = 1;
    this.#seenCount++;
    this.#ranges.starts[input.index] = start;
    this.#ranges.ends[input.index] = end;
    const { denseBytes, idBytes, ids } = this.#arrays as InputArrays;
    if (input.feature < 0) copyBytes(bytes, start, end, denseBytes, 0);
    else if (elementBytes === INT32_BYTES) {
      copyBytes(bytes, start, end, idBytes, this.#batch * input.idOffset * INT32_BYTES);
    } else {
      this.#isAllInt32 = false;
      this.#narrowIds(input, bytes, start, end, ids);
    }
  }

  /** Undefined if ids were narrowed: then data are not copied as they stand. */
  get ranges(): DataRanges | undefined {
    return this.#isAllInt32 ? this.#ranges : undefined;
  }

  /** The complete request; throws if inputs are missing or a dense feature is not finite. */
  finish(): ScoringRequest {
    const { inputs, denseFeatures } = this.#plan;
    if (this.#seenCount < inputs.length) {
      const missing = inputs.filter((input) => this.#seen[input.index] === 0);
      throw new ServerError(
        "invalid_argument",
        missing.length === 1
          ? `input ${quote((missing[0] as InputPlan).name)} is missing: expected ${inputs.length} inputs, got ${this.#seenCount}`
          : `${missing.length} inputs are missing (${nameList(missing)}): expected ${inputs.length}, got ${this.#seenCount}`,
      );
    }
    const { dense, request } = this.#arrays as InputArrays;
    for (let index = 0; index < dense.length; index++) {
      const value = dense[index] as number;
      // NaN and the infinities are the only values for which this is not 0.
      if (value - value !== 0) {
        const example = Math.floor(index / denseFeatures);
        throw new ServerError(
          "invalid_argument",
          `input ${quote((inputs[0] as InputPlan).name)}: expected finite values, got ${value} at example ${example}, ` +
            `feature ${index % denseFeatures}`,
        );
      }
    }
    return request;
  }

  #checkShape(input: InputPlan, dimensions: readonly Dimension[], elementBytes: number, byteCount: number): void {
    const [examples, width] = dimensions;
    if (dimensions.length !== 2 || width !== input.width) {
      throw new ServerError(
        "invalid_argument",
        `input ${quote(input.name)}: expected shape [examples, ${input.width}], got ${shapeText(dimensions)}`,
      );
    }
    if (examples === undefined || examples < 1) {
      throw new ServerError(
        "invalid_argument",
        `input ${quote(input.name)}: expected 1 to ${this.#maxExamples} examples (--max-examples-per-request), ` +
          `got shape ${shapeText(dimensions)}`,
      );
    }
    if (typeof examples !== "number" || examples > this.#maxExamples) {
      throw new ServerError(
        "resource_exhausted",
        `the request has ${examples} examples (input ${quote(input.name)}), over the limit of ${this.#maxExamples} ` +
          `a request (--max-examples-per-request)`,
      );
    }
    if (this.#batch !== 0 && examples !== this.#batch) {
      throw new ServerError(
        "invalid_argument",
        `input ${quote(input.name)}: expected shape [${this.#batch}, ${input.width}] as input ${quote(this.#batchFrom)} ` +
          `has ${this.#batch} examples, got ${shapeText(dimensions)}`,
      );
    }
    const expectedBytes = examples * input.width * elementBytes;
    if (byteCount !== expectedBytes) {
      throw new ServerError(
        "invalid_argument",
        `input ${quote(input.name)}: expected ${expectedBytes} bytes of data for shape ${shapeText(dimensions)} of ` +
          `${elementBytes}-byte elements, got ${byteCount}`,
      );
    }
    if (this.#batch === 0) this.#allocate(input.name, examples);
  }

  #allocate(name: string, batch: number): void {
    this.#batchFrom = name;
    this.#batch = batch;
    this.#arrays = this.#plan.buffers.for(batch);
  }

  #narrowIds(input: InputPlan, bytes: Uint8Array, start: number, end: number, ids: Int32Array): void {
    // The bytes of a message are aligned to nothing; an int64 is read as its two halves.
    const view = new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
    const first = this.#batch * input.idOffset;
    const count = (end - start) / INT64_BYTES;
    for (let index = 0; index < count; index++) {
      const low = view.getInt32(index * INT64_BYTES, true);
      if (view.getInt32(index * INT64_BYTES + 4, true) !== low >> 31) {
        throw outOfRange(
          input,
          Math.floor(index / input.width),
          index % input.width,
          view.getBigInt64(index * 8, true),
        );
      }
      ids[first + index] = low;
    }
  }
}

/** The error for an id that is no row of its table. */
export function outOfRange(input: InputPlan, example: number, position: number, id: number | bigint): ServerError {
  return new ServerError(
    "invalid_argument",
    `input ${quote(input.name)}: expected ids from 0 to ${input.vocabularySize - 1}, got ${id} at example ${example}, ` +
      `bag position ${position}`,
  );
}

function elementSize(input: InputPlan, dataType: number): number {
  if (input.feature < 0) {
    if (dataType === DataType.FLOAT32) return 4;
  } else if (dataType === DataType.INT32) return INT32_BYTES;
  else if (dataType === DataType.INT64) return INT64_BYTES;
  const expected = input.feature < 0 ? "FLOAT32" : "INT32 or INT64";
  throw new ServerError(
    "invalid_argument",
    `input ${quote(input.name)}: expected data type ${expected}, got ${dataTypeName(dataType)}`,
  );
}

export function copyBytes(source: Uint8Array, start: number, end: number, target: Uint8Array, at: number): void {
  if (end - start > SMALL_COPY_BYTES) {
    target.set(source.subarray(start, end), at);
    return;
  }
  for (let index = start; index < end; index++) target[at + index - start] = source[index] as number;
}

function nameList(inputs: readonly InputPlan[]): string {
  const shown = inputs.slice(0, 10).map((input) => quote(input.name));
  return inputs.length > shown.length
    ? `${shown.join(", ")} and ${inputs.length - shown.length} more`
    : shown.join(", ");
}

function inputRange(inputs: readonly InputPlan[]): string {
  return inputs.length > 4
    ? `${quote((inputs[0] as InputPlan).name)}, ${quote((inputs[1] as InputPlan).name)} … ${quote((inputs.at(-1) as InputPlan).name)}`
    : nameList(inputs);
}
