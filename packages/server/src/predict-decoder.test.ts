import { create, toBinary } from "@bufbuild/protobuf";
import { DataType, PredictRequestSchema } from "@dlrm/proto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { planModel } from "./model-plan.ts";
import { PredictDecoder } from "./predict-decoder.ts";
import { decodePredictRequest } from "./predict-request.ts";
import { ServerError } from "./server-error.ts";

interface TestModel {
  readonly plan: ReturnType<typeof planModel>;
  readonly maxExamplesPerRequest: number;
}

/** A model of its own, so that no two decoders share the arrays they decode into. */
const makeModel = (): TestModel => ({
  plan: planModel({
    name: "m",
    embeddingDim: 4,
    denseFeatures: 2,
    features: [
      { name: "a", vocabularySize: 10, hotSize: 3, pooling: "sum" },
      { name: "b", vocabularySize: 20, hotSize: 40, pooling: "sum" },
    ],
    denseNetwork: { bottomMlp: [4], crossLayers: 0, crossProjection: 1, topMlp: [1] },
  }),
  maxExamplesPerRequest: 8,
});

const resolverOf =
  (model: TestModel) =>
  (name: string): TestModel => {
    if (name !== "m") throw new ServerError("not_found", name);
    return model;
  };

const messageOf = (batch: number, seed: number): Uint8Array => {
  const bytes = (array: Float32Array | Int32Array): Uint8Array<ArrayBuffer> =>
    new Uint8Array(array.buffer as ArrayBuffer);
  const ids = (width: number): Uint8Array<ArrayBuffer> =>
    bytes(Int32Array.from({ length: batch * width }, (_, index) => (index * 31 + seed * 7) % 1000));
  const tensor = (width: number, data: Uint8Array<ArrayBuffer>, dataType: DataType = DataType.INT32) => ({
    dataType,
    shape: [BigInt(batch), BigInt(width)],
    data,
  });
  const dense = bytes(Float32Array.from({ length: batch * 2 }, (_, index) => index + seed / 8));
  return toBinary(
    PredictRequestSchema,
    create(PredictRequestSchema, {
      model: "m",
      inputs: { b: tensor(40, ids(40)), dense: tensor(2, dense, DataType.FLOAT32), a: tensor(3, ids(3)) },
    }),
  );
};

function outcome(decode: () => { request: { batch: number; dense: Float32Array; ids: Int32Array } }): unknown {
  try {
    const { batch, dense, ids } = decode().request;
    return { batch, dense: [...dense], ids: [...ids] };
  } catch (error) {
    if (error instanceof ServerError) return [error.code, error.message];
    throw error;
  }
}

/** A decoder that knows the layouts of these messages, and what they decode to without it. */
function decoderThatKnows(messages: readonly Uint8Array[]): PredictDecoder<TestModel> {
  const decoder = new PredictDecoder(resolverOf(makeModel()));
  for (const message of messages) decoder.decode(message);
  return decoder;
}
const plainly = (message: Uint8Array): unknown => {
  const resolve = resolverOf(makeModel());
  return outcome(() => decodePredictRequest(message, resolve));
};

test.each([1, 3, 8])(
  "messages of %i examples that differ in their data are decoded as if each were the first",
  (batch) => {
    const decoder = decoderThatKnows([messageOf(batch, 0)]);
    for (let seed = 1; seed < 20; seed++) {
      const message = messageOf(batch, seed);
      expect(outcome(() => decoder.decode(message))).toEqual(plainly(message));
      // In the middle of a buffer, as it comes from a socket.
      const shifted = Buffer.concat([Buffer.alloc(11), message, Buffer.alloc(7, 255)]);
      expect(outcome(() => decoder.decode(shifted, 11, 11 + message.length))).toEqual(plainly(message));
    }
  },
);

test("changed anywhere, a message of a known length means what it means to a decoder that knows nothing", () => {
  const decoder = decoderThatKnows([messageOf(1, 0), messageOf(3, 0)]);
  fc.assert(
    fc.property(
      fc.constantFrom(1, 3),
      fc.nat(50),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }),
      (batch, seed, changes) => {
        const message = Buffer.from(messageOf(batch, seed));
        for (const [at, value] of changes) message[at % message.length] = value;
        expect(outcome(() => decoder.decode(message))).toEqual(plainly(message));
      },
    ),
    { numRuns: 3000, seed: 4 },
  );
});

test("another layout of the same length takes the place of one that comes no more", () => {
  const known = messageOf(2, 0);
  const decoder = decoderThatKnows([known]);
  // The entries in another order: as long, and with the same meaning.
  const entries: Uint8Array[] = [];
  const head = known.indexOf(0x12);
  for (let at = head; at < known.length;) {
    const small = (known[at + 1] as number) < 0x80;
    const length = small
      ? (known[at + 1] as number)
      : ((known[at + 1] as number) & 0x7f) | ((known[at + 2] as number) << 7);
    const end = at + (small ? 2 : 3) + length;
    entries.push(known.subarray(at, end));
    at = end;
  }
  expect(entries).toHaveLength(3);
  const other = Buffer.concat([known.subarray(0, head), ...entries.reverse()]);
  for (let times = 0; times < 40; times++) expect(outcome(() => decoder.decode(other))).toEqual(plainly(known));
  expect(outcome(() => decoder.decode(known))).toEqual(plainly(known));
});

test("a model that is not there any more is not found by a known layout either", () => {
  const model = makeModel();
  let isThere = true;
  const decoder = new PredictDecoder((name) => {
    if (!isThere) throw new ServerError("not_found", `no ${name}`);
    return model;
  });
  decoder.decode(messageOf(1, 0));
  isThere = false;
  expect(outcome(() => decoder.decode(messageOf(1, 1)))).toEqual(["not_found", "no m"]);
});
