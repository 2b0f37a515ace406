import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { DataType, PredictRequestSchema } from "@dlrm/proto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planModel } from "./model-plan.ts";
import { decodePredictMessage, decodePredictRequest } from "./predict-request.ts";
import { ServerError } from "./server-error.ts";

const model = {
  plan: planModel({
    name: "m",
    embeddingDim: 4,
    denseFeatures: 2,
    features: [
      { name: "a", vocabularySize: 10, hotSize: 3, pooling: "sum" },
      { name: "b", vocabularySize: 20, hotSize: 1, pooling: "sum" },
    ],
    denseNetwork: { bottomMlp: [4], crossLayers: 0, crossProjection: 1, topMlp: [1] },
  }),
  maxExamplesPerRequest: 8,
};

const resolve = (name: string, version: string): typeof model => {
  if (name !== "m" || version !== "2") throw new ServerError("not_found", `${name} ${version}`);
  return model;
};

const bytes = (array: Float32Array | Int32Array | BigInt64Array): Uint8Array<ArrayBuffer> =>
  new Uint8Array(array.buffer as ArrayBuffer);

const valid = create(PredictRequestSchema, {
  model: "m",
  version: "2",
  inputs: {
    b: { dataType: DataType.INT64, shape: [2n, 1n], data: bytes(BigInt64Array.of(7n, -1n)) },
    dense: { dataType: DataType.FLOAT32, shape: [2n, 2n], data: bytes(Float32Array.of(1, 2, 3, 4)) },
    a: { dataType: DataType.INT32, shape: [2n, 3n], data: bytes(Int32Array.of(1, 2, 3, 4, 5, 6)) },
  },
});
const expected = { batch: 2, dense: Float32Array.of(1, 2, 3, 4), ids: Int32Array.of(1, 2, 3, 4, 5, 6, 7, -1) };

/** A copy, as the next request overwrites what was decoded. */
function outcome(decode: () => { request: unknown }): unknown {
  try {
    return structuredClone(decode().request);
  } catch (error) {
    if (error instanceof ServerError) return error.code;
    throw error;
  }
}

describe("decodePredictRequest", () => {
  test("puts ids feature by feature, whatever the order of the inputs", () => {
    expect(decodePredictRequest(toBinary(PredictRequestSchema, valid), resolve).request).toEqual(expected);
    expect(decodePredictMessage(valid, resolve).request).toEqual(expected);
  });

  test("reads the model wherever it stands, and steps over unknown fields of every wire type", () => {
    const inputs = toBinary(PredictRequestSchema, create(PredictRequestSchema, { inputs: valid.inputs }));
    const names = toBinary(PredictRequestSchema, create(PredictRequestSchema, { model: "m", version: "2" }));
    // Fields 9 (varint), 10 (fixed64), 11 (bytes), 12 (a group with a varint in it) and 13 (fixed32).
    const unknown = Buffer.from("48ac025100010203040506075a03616263634801646d00010203", "hex");
    const message = Buffer.concat([unknown, inputs, unknown, names, unknown]);
    expect(decodePredictRequest(message, resolve).request).toEqual(expected);
  });

  test("reads a shape that is not packed, and a message at an odd offset of its buffer", () => {
    const packed = Buffer.from(toBinary(PredictRequestSchema, valid));
    const at = packed.indexOf(Buffer.from([0x12, 2, 2, 3]));
    const unpacked = Buffer.concat([packed.subarray(0, at), Buffer.from([0x10, 2, 0x10, 3]), packed.subarray(at + 4)]);
    const shifted = Buffer.concat([Buffer.from([0xff]), unpacked]).subarray(1);
    expect(decodePredictRequest(shifted, resolve).request).toEqual(expected);
  });

  test("takes the last of several entries of one input, whatever the others were", () => {
    const only = (dense: object): Uint8Array =>
      toBinary(PredictRequestSchema, create(PredictRequestSchema, { inputs: { dense } }));
    const wrong = only({ dataType: DataType.INT64, shape: [9n], data: new Uint8Array(3) });
    const other = only({ dataType: DataType.FLOAT32, shape: [2n, 2n], data: bytes(Float32Array.of(5, 6, 7, 8)) });
    const message = toBinary(PredictRequestSchema, valid);
    const decode = (...pieces: Uint8Array[]): unknown =>
      outcome(() => decodePredictRequest(Buffer.concat(pieces), resolve));
    expect(decode(wrong, wrong, message)).toEqual(expected);
    expect(decode(message, other)).toEqual({ ...expected, dense: Float32Array.of(5, 6, 7, 8) });
    expect(decode(other, message, wrong)).toBe("invalid_argument");
    // It must be well-formed all the same.
    const cutOff = Buffer.from("1204120212ff", "hex");
    expect(decode(cutOff, message)).toBe("invalid_argument");
  });

  test("agrees with protobuf's own decoder on every message, valid or not", () => {
    const tensor = fc.record({
      dataType: fc.constantFrom(DataType.FLOAT32, DataType.INT32, DataType.INT64, DataType.BOOL),
      shape: fc.array(fc.constantFrom(0n, 1n, 2n, 3n, 9n, -1n, 2n ** 60n), { maxLength: 3 }),
      data: fc.constantFrom(0, 4, 8, 12, 16, 24).map((length) => new Uint8Array(length)),
    });
    const anyRequest = fc.record({
      model: fc.constantFrom("m", "m", "m", ""),
      version: fc.constantFrom("2", "2", "2", "1"),
      inputs: fc.dictionary(fc.constantFrom("a", "b", "dense", "c"), tensor),
    });
    fc.assert(
      fc.property(anyRequest, (init) => {
        const message = create(PredictRequestSchema, init);
        const encoded = toBinary(PredictRequestSchema, message);
        expect(outcome(() => decodePredictRequest(encoded, resolve))).toEqual(
          outcome(() => decodePredictMessage(fromBinary(PredictRequestSchema, encoded), resolve)),
        );
      }),
      { seed: 4, numRuns: 500 },
    );
  });

  test("never fails but with an error of its own", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
        expect(["not_found", "invalid_argument"]).toContain(outcome(() => decodePredictRequest(noise, resolve)));
      }),
      { seed: 5, numRuns: 2000 },
    );
  });

  test("refuses more inputs than any model has, before it looks at them", () => {
    const message = Buffer.alloc(2 * 65_537);
    for (let at = 0; at < message.length; at += 2) message[at] = 0x12;
    expect(() => decodePredictRequest(message, resolve)).toThrow("expected at most 65536 inputs, got more");
  });

  test.each([
    ["a tag of field 0", "00", "field number 0 at byte 1"],
    ["a tag over 32 bits", "ffffffff7f", "a number over 32 bits at byte 5"],
    ["a tag that is cut off", "8080", "a number that is cut off at byte 2"],
    ["a length beyond the end", "0a05616263", "field 1 of 5 bytes where 3 are left at byte 2"],
    ["a name that is a number", "0801", "field 1 with wire type 0, expected 2 at byte 1"],
    ["a number over 64 bits", "48ffffffffffffffffffff01", "a number over 64 bits at byte 11"],
    ["a fixed64 that is cut off", "510001", "a number that is cut off at byte 1"],
    ["a group that does not end", "634801", "a group that does not end at byte 3"],
    ["a group that ends as another", "636c", "a group that ends with another group's tag at byte 2"],
    ["an end of no group", "64", "field 12 with wire type 4 at byte 1"],
    ["a wire type that does not exist", "4f", "field 9 with wire type 7 at byte 1"],
    ["groups too deep", "63".repeat(40), "groups nested deeper than 32 at byte 33"],
  ])("says what is malformed: %s", (_title, hex, message) => {
    const noise = Buffer.from(hex, "hex");
    expect(() => decodePredictRequest(noise, resolve)).toThrow(
      `malformed protobuf message of ${noise.length} bytes: ${message}`,
    );
    // In the middle of a buffer.
    const shifted = Buffer.concat([Buffer.alloc(3), noise, Buffer.alloc(5)]);
    expect(() => decodePredictRequest(shifted, resolve, 3, 3 + noise.length)).toThrow(
      `malformed protobuf message of ${noise.length} bytes: ${message}`,
    );
  });
});
