import { fromBinary } from "@bufbuild/protobuf";
import { DataType, PredictRequestSchema, type PredictRequest } from "@dlrm/proto";
import { describe, expect, test } from "vitest";
import { buildRequestPool, type RequestPool, type RequestPoolOptions } from "./request-pool.ts";

const options: RequestPoolOptions = {
  shape: {
    denseFeatures: 13,
    features: [
      { name: "sparse_0", vocabularySize: 1000, hotSize: 3 },
      { name: "sparse_1", vocabularySize: 4, hotSize: 100 },
    ],
  },
  model: "",
  idType: "int32",
  requestSize: 5,
  idDistribution: "uniform",
  seed: 1,
  poolExamples: 1000,
  part: 0,
  parts: 1,
};

function decodeAll(pool: RequestPool): PredictRequest[] {
  return Array.from({ length: pool.requests }, () => {
    const frame = pool.next();
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    expect([view.getUint8(0), view.getUint32(1)]).toEqual([0, frame.length - 5]);
    return fromBinary(PredictRequestSchema, frame.subarray(5));
  });
}

describe("buildRequestPool", () => {
  test("every request has the shape, types and byte lengths of the model, and ids within its tables", () => {
    const pool = buildRequestPool(options);
    expect(pool.requests).toBe(200);
    for (const { inputs, model, version } of decodeAll(pool)) {
      expect([model, version, Object.keys(inputs).sort()]).toEqual(["", "", ["dense", "sparse_0", "sparse_1"]]);
      const { dense, sparse_0: first, sparse_1: second } = inputs;
      expect([dense?.dataType, dense?.shape, dense?.data.length]).toEqual([DataType.FLOAT32, [5n, 13n], 260]);
      expect([first?.dataType, first?.shape, first?.data.length]).toEqual([DataType.INT32, [5n, 3n], 60]);
      expect([second?.shape, second?.data.length]).toEqual([[5n, 100n], 2000]);
      const ids = new Int32Array(Uint8Array.from(second?.data ?? []).buffer);
      expect(ids.every((id) => id >= 0 && id < 4)).toBe(true);
      const floats = new Float32Array(Uint8Array.from(dense?.data ?? []).buffer);
      expect(floats.every((value) => value >= 0 && value <= 1)).toBe(true);
    }
  });

  test("states its memory", () => {
    const pool = buildRequestPool(options);
    let bytes = 0;
    for (let i = 0; i < pool.requests; i++) bytes += pool.next().length;
    expect(pool.bytes).toBe(bytes);
  });

  test("goes round", () => {
    const pool = buildRequestPool({ ...options, poolExamples: 1 });
    expect(pool.requests).toBe(64);
    const first = pool.next();
    for (let i = 1; i < 64; i++) expect(pool.next()).not.toBe(first);
    expect(pool.next()).toBe(first);
  });

  test("a mixed pool has MLPerf's sizes, and says of each request how many examples it has", () => {
    const pool = buildRequestPool({ ...options, requestSize: "mlperf", poolExamples: 1 });
    expect(pool.requests).toBe(200);
    const sizes: number[] = [];
    for (let i = 0; i < pool.requests; i++) {
      const request = fromBinary(PredictRequestSchema, pool.next().subarray(5));
      expect(request.inputs["dense"]?.shape).toEqual([BigInt(pool.examples), 13n]);
      sizes.push(pool.examples);
    }
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(200 * 270);
    expect([Math.min(...sizes), Math.max(...sizes)]).toEqual([100, 700]);
  });

  test("ids can be int64", () => {
    const [request] = decodeAll(buildRequestPool({ ...options, idType: "int64", poolExamples: 1 }));
    const [small] = decodeAll(buildRequestPool({ ...options, poolExamples: 1 }));
    const wide = request?.inputs["sparse_0"];
    expect([wide?.dataType, wide?.data.length]).toEqual([DataType.INT64, 120]);
    const ids = [...new BigInt64Array(Uint8Array.from(wide?.data ?? []).buffer)].map(Number);
    expect(ids).toEqual([...new Int32Array(Uint8Array.from(small?.inputs["sparse_0"]?.data ?? []).buffer)]);
  });

  test("one seed makes the same requests, dealt out to any number of processes; another seed makes others", () => {
    const hex = (pool: RequestPool): string[] =>
      Array.from({ length: pool.requests }, () => Buffer.from(pool.next()).toString("hex"));
    const whole = hex(buildRequestPool({ ...options, poolExamples: 640 }));
    const halves = [0, 1].map((part) => hex(buildRequestPool({ ...options, poolExamples: 640, part, parts: 2 })));
    expect([halves[0]?.[0], halves[1]?.[0], halves[0]?.[1]]).toEqual(whole.slice(0, 3));
    expect(hex(buildRequestPool({ ...options, seed: 2, poolExamples: 1 }))[0]).not.toBe(whole[0]);
    expect(new Set(whole).size).toBe(whole.length);
  });

  test("the model's name is sent", () => {
    const [request] = decodeAll(buildRequestPool({ ...options, model: "ranker", poolExamples: 1 }));
    expect(request?.model).toBe("ranker");
  });
});
