/**
 * The request decoder for the fuzzer of packages/h2 (`nx run server:fuzz`): what is read straight from wire bytes must be what
 * protobuf's own decoder reads, also by a decoder that knows how the last messages were laid out.
 */
import assert from "node:assert/strict";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { DataType, type PredictRequest, PredictRequestSchema } from "@dlrm/proto";
import { planModel } from "../src/model-plan.ts";
import { PredictDecoder } from "../src/predict-decoder.ts";
import { decodePredictMessage, decodePredictRequest, type ResolvedRequest } from "../src/predict-request.ts";
import { ServerError } from "../src/server-error.ts";
import { LENGTH_DELIMITED, WireReader } from "../src/wire-reader.ts";

/** What the targets need of the fuzzer's generator. */
interface Random {
  below(bound: number): number;
  once(times: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
  bytes(length: number): Buffer;
}

interface TestModel {
  readonly plan: ReturnType<typeof planModel>;
  readonly maxExamplesPerRequest: number;
}

const HOT_SIZES = { a: 3, b: 40, dense: 2 } as const;

/** A model of its own for each decoder, as they decode into its arrays. */
function resolver(): (name: string, version: string) => TestModel {
  const features = (["a", "b"] as const).map((name) => ({
    name,
    vocabularySize: 20,
    hotSize: HOT_SIZES[name],
    pooling: "sum" as const,
  }));
  const denseNetwork = { bottomMlp: [4], crossLayers: 0, crossProjection: 1, topMlp: [1] };
  const model = {
    plan: planModel({ name: "m", embeddingDim: 4, denseFeatures: HOT_SIZES.dense, features, denseNetwork }),
    maxExamplesPerRequest: 8,
  };
  return (name, version) => {
    if (name !== "m" || version !== "2") throw new ServerError("not_found", `${name} ${version}`);
    return model;
  };
}

const plain = resolver();
const reference = resolver();
const knowing = new PredictDecoder(resolver());

/** Most requests are right, or nearly. */
function makeRequest(random: Random): Buffer {
  const batch = 1 + random.below(4);
  const inputs: Record<string, object> = {};
  for (const [name, width] of Object.entries(HOT_SIZES)) {
    if (random.once(20)) continue;
    const isDense = name === "dense";
    const isWide = !isDense && random.once(2);
    const dataType = isDense ? DataType.FLOAT32 : isWide ? DataType.INT64 : DataType.INT32;
    const shape = [BigInt(random.once(20) ? random.below(9) : batch), BigInt(width)];
    inputs[name] = { dataType, shape, data: random.bytes(batch * width * (isWide ? 8 : 4)) };
  }
  const again = random.once(10)
    ? { inputs: { [random.pick(Object.keys(HOT_SIZES))]: Object.values(inputs)[0] ?? {} } }
    : {};
  const message = create(PredictRequestSchema, { model: "m", version: random.once(20) ? "1" : "2", inputs });
  return Buffer.concat([
    toBinary(PredictRequestSchema, create(PredictRequestSchema, again)),
    toBinary(PredictRequestSchema, message),
  ]);
}

function outcomeOf(decode: () => ResolvedRequest<TestModel>): string {
  try {
    const { batch, dense, ids } = decode().request;
    const hex = (array: Float32Array | Int32Array): string =>
      Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("hex");
    return `${batch} ${hex(dense)} ${hex(ids)}`;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    return error.code;
  }
}

/** Undefined where protobuf's own decoder takes the bytes for no message. */
function messageOf(input: Buffer): PredictRequest | undefined {
  try {
    return fromBinary(PredictRequestSchema, input);
  } catch {
    return undefined;
  }
}

interface MessageType {
  /** Wire types of its fields, by number; a field that is not named here may have any. */
  readonly fields: Readonly<Record<number, readonly number[]>>;
  /** Those that are messages. */
  readonly messages?: Readonly<Record<number, MessageType>>;
}
const SHAPE_FIELD = 2;
const buffer: MessageType = { fields: { 1: [0], [SHAPE_FIELD]: [0, 2], 3: [2] } };
const entry: MessageType = { fields: { 1: [2], 2: [2] }, messages: { 2: buffer } };
const request: MessageType = { fields: { 1: [2], 2: [2], 3: [2] }, messages: { 2: entry } };

/**
 * How many inputs the octets have, or undefined where they break the encoding anywhere. Protobuf's own decoder reads on beyond the end of a field that is longer
 * than the message that it stands in, and takes what follows for something else than it is.
 */
function countInputs(input: Buffer): number | undefined {
  const reader = new WireReader(input);
  let inputs = 0;
  const walk = (end: number, { fields, messages }: MessageType): void => {
    for (let field = reader.next(end); field !== 0; field = reader.next(end)) {
      if (fields[field]?.includes(reader.wireType) === false) throw reader.malformed("a wrong wire type");
      const inner = messages?.[field];
      if (inner !== undefined) walk(reader.lengthDelimited(end), inner);
      else if (fields === buffer.fields && field === SHAPE_FIELD && reader.wireType === LENGTH_DELIMITED) {
        const packedEnd = reader.lengthDelimited(end);
        while (reader.position < packedEnd) reader.int64(packedEnd);
      } else reader.skip(end);
      if (inner === entry) inputs += 1;
    }
  };
  try {
    walk(input.length, request);
    return inputs;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    return undefined;
  }
}

function checkRequest(input: Buffer): string {
  const inputs = countInputs(input);
  let malformed = inputs === undefined;
  const got = outcomeOf(() => {
    try {
      return decodePredictRequest(input, plain);
    } catch (error) {
      malformed ||= error instanceof ServerError && error.message.startsWith("malformed");
      throw error;
    }
  });
  assert.equal(
    outcomeOf(() => knowing.decode(input)),
    got,
  );
  const message = messageOf(input);
  // Protobuf's decoder lets some malformed bytes pass; nothing that it refuses may be served.
  if (message === undefined || malformed) {
    assert.ok(!got.includes(" "), got);
  } else {
    const expected = outcomeOf(() => decodePredictMessage(message, reference));
    // Of several mistakes, in one input that comes more than once, any may be the one that is told of.
    const hasDuplicates = inputs !== Object.keys(message.inputs).length;
    if (!hasDuplicates || got.includes(" ") || expected.includes(" ")) assert.equal(got, expected);
  }
  return `${got.split(" ", 1)[0]} ${malformed} ${message === undefined}`;
}

export const fuzzTargets = [{ name: "predict-request", make: makeRequest, check: checkRequest }] as const;
