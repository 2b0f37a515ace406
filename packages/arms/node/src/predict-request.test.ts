import { create, toBinary } from "@bufbuild/protobuf";
import type { Bundle } from "@dlrm/model";
import { DataType, type HostBuffer, HostBufferSchema, type PredictRequest, PredictRequestSchema } from "@dlrm/proto";
import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { TINY_SPEC, tinyInput, tinyRequest } from "../test/tiny-bundle.ts";
import { RequestDecoder } from "./predict-request.ts";
import { RequestError } from "./request-error.ts";

const decoder = new RequestDecoder({ name: "tiny", version: "3", spec: TINY_SPEC } as unknown as Bundle, 4);

function decode(request: PredictRequest) {
  return decoder.decode(toBinary(PredictRequestSchema, request));
}

describe("a good request", () => {
  test.each([1, 3, 4])("of %i examples gives its dense features and ids, int32 or int64", (batch) => {
    const input = tinyInput(batch);
    for (const wide of [false, true]) {
      const decoded = decode(tinyRequest(input, wide));
      expect(decoded.batch).toBe(batch);
      expect([...decoded.dense]).toEqual([...input.dense]);
      expect([...decoded.ids]).toEqual(input.ids.flatMap((ids) => Array.from(ids)));
    }
  });

  test("may name the model and its version", () => {
    const request = tinyRequest(tinyInput(1));
    request.model = "tiny";
    request.version = "3";
    expect(decode(request).batch).toBe(1);
  });
});

type Inputs = Record<string, HostBuffer>;
const input = (inputs: Inputs, name: string): HostBuffer => inputs[name] as HostBuffer;
const setId = (buffer: HostBuffer, at: number, id: bigint): void => {
  const view = new DataView(buffer.data.buffer, buffer.data.byteOffset);
  if (buffer.dataType === DataType.INT64) view.setBigInt64(at * 8, id, true);
  else view.setInt32(at * 4, Number(id), true);
};
const setDense = (inputs: Inputs, at: number, value: number): void =>
  new DataView(input(inputs, "dense").data.buffer).setFloat32(at * 4, value, true);

const INVALID = status.INVALID_ARGUMENT;

/** All on a valid request of 2 examples. */
const BAD: [string, (inputs: Inputs, request: PredictRequest) => unknown, status, string][] = [
  [
    "no inputs",
    (i) => Object.keys(i).forEach((name) => delete i[name]),
    INVALID,
    'input "dense" is missing: expected 3 inputs, got 0',
  ],
  ["a missing feature", (i) => delete i["sparse_1"], INVALID, 'input "sparse_1" is missing: expected 3 inputs, got 2'],
  [
    "an unknown input",
    (i) => (i["x"] = create(HostBufferSchema)),
    INVALID,
    'unknown input "x": expected "dense" and 2 features',
  ],
  [
    "an input of another name",
    (i) => ((i["__proto__x"] = input(i, "sparse_1")), delete i["sparse_1"]),
    INVALID,
    'unknown input "__proto__x": expected "dense" and 2 features',
  ],
  [
    "a long name",
    (i) => (i["y".repeat(100)] = create(HostBufferSchema)),
    INVALID,
    `unknown input "${"y".repeat(64)}…": expected "dense" and 2 features`,
  ],
  [
    "dense of another type",
    (i) => (input(i, "dense").dataType = DataType.FLOAT64),
    INVALID,
    'input "dense": expected data type FLOAT32, got FLOAT64',
  ],
  [
    "ids of another type",
    (i) => (input(i, "sparse_0").dataType = DataType.FLOAT32),
    INVALID,
    'input "sparse_0": expected data type INT32 or INT64, got FLOAT32',
  ],
  [
    "a type that is none",
    (i) => (input(i, "sparse_0").dataType = 99 as DataType),
    INVALID,
    'input "sparse_0": expected data type INT32 or INT64, got DataType(99)',
  ],
  [
    "no examples",
    (i) => (input(i, "dense").shape[0] = 0n),
    INVALID,
    'input "dense": expected shape [B, 3] with at least 1 example, got [0, 3]',
  ],
  [
    "no shape",
    (i) => (input(i, "dense").shape = []),
    INVALID,
    'input "dense": expected shape [B, 3] with at least 1 example, got []',
  ],
  [
    "too many examples",
    (i) => (input(i, "dense").shape[0] = 5n),
    status.RESOURCE_EXHAUSTED,
    'input "dense": expected at most 4 examples a request, got 5',
  ],
  [
    "another width",
    (i) => (input(i, "dense").shape[1] = 4n),
    INVALID,
    'input "dense": expected shape [2, 3], got [2, 4]',
  ],
  [
    "another batch of ids",
    (i) => (input(i, "sparse_0").shape[0] = 1n),
    INVALID,
    'input "sparse_0": expected shape [2, 5], got [1, 5]',
  ],
  [
    "nine dimensions",
    (i) => (input(i, "sparse_0").shape = Array.from({ length: 9 }, () => 1n)),
    INVALID,
    'input "sparse_0": expected shape [2, 5], got 9 dimensions',
  ],
  [
    "a byte too few",
    (i) => (input(i, "sparse_0").data = input(i, "sparse_0").data.slice(1)),
    INVALID,
    'input "sparse_0": expected 40 bytes of data for shape [2, 5], got 39',
  ],
  [
    "an infinity",
    (i) => setDense(i, 4, Infinity),
    INVALID,
    'input "dense" at [1, 1]: expected a finite number, got Infinity',
  ],
  ["a NaN", (i) => setDense(i, 0, Number.NaN), INVALID, 'input "dense" at [0, 0]: expected a finite number, got NaN'],
  [
    "an id beyond the table",
    (i) => setId(input(i, "sparse_0"), 9, 50n),
    INVALID,
    'input "sparse_0" at [1, 4]: expected an id from 0 to 49, got 50',
  ],
  [
    "a negative id",
    (i) => setId(input(i, "sparse_1"), 0, -1n),
    INVALID,
    'input "sparse_1" at [0, 0]: expected an id from 0 to 6, got -1',
  ],
  [
    "another model",
    (_, request) => (request.model = "other"),
    status.NOT_FOUND,
    'unknown model "other": expected "tiny"',
  ],
  [
    "another version",
    (_, request) => (request.version = "4"),
    status.NOT_FOUND,
    'unknown version "4" of the model "tiny": expected "3"',
  ],
];

describe("a bad request", () => {
  test.each(BAD)("with %s is refused, and told why", (_, change, code, message) => {
    const request = tinyRequest(tinyInput(2));
    change(request.inputs, request);
    expect(() => decode(request)).toThrow(
      expect.objectContaining({ name: "RequestError", code, message }) as RequestError,
    );
  });

  test.each([50n, -1n, 2n ** 31n, 2n ** 32n, 2n ** 40n, -(2n ** 63n)])("with the int64 id %s is refused", (id) => {
    const request = tinyRequest(tinyInput(2), true);
    setId(input(request.inputs, "sparse_0"), 3, id);
    expect(() => decode(request)).toThrow(
      new RequestError(status.INVALID_ARGUMENT, `input "sparse_0" at [0, 3]: expected an id from 0 to 49, got ${id}`),
    );
  });

  test("that is no message is refused", () => {
    expect(() => decoder.decode(Uint8Array.of(0x12, 0xff, 0xff))).toThrow(
      /^the request is not a PredictRequest message: /,
    );
  });
});
