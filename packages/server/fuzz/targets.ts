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
  const message = create(PredictRequestSchema, { model: "m", version: random.once(20) ? "1" : "2", inputs });
  return Buffer.from(toBinary(PredictRequestSchema, message));
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

function checkRequest(input: Buffer): string {
  let malformed = false;
  const got = outcomeOf(() => {
    try {
      return decodePredictRequest(input, plain);
    } catch (error) {
      malformed = error instanceof ServerError && error.message.startsWith("malformed");
      throw error;
    }
  });
  assert.equal(
    outcomeOf(() => knowing.decode(input)),
    got,
  );
  const message = messageOf(input);
  // Protobuf's decoder lets some malformed bytes pass; nothing that it refuses may be served.
  if (message === undefined) assert.ok(!got.includes(" "), got);
  else if (!malformed)
    assert.equal(
      got,
      outcomeOf(() => decodePredictMessage(message, reference)),
    );
  return `${got.split(" ", 1)[0]} ${malformed} ${message === undefined}`;
}

export const fuzzTargets = [{ name: "predict-request", make: makeRequest, check: checkRequest }] as const;
