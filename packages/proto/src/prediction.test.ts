import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { DataType, PredictRequestSchema } from "@dlrm/proto";

test("a PredictRequest has the field numbers other languages rely on", () => {
  const request = create(PredictRequestSchema, {
    model: "m",
    inputs: { x: { dataType: DataType.INT64, shape: [1n, 2n], data: new Uint8Array([7]) } },
    version: "v",
  });
  const bytes = toBinary(PredictRequestSchema, request);
  const expected = "0a016d120e0a017812090803120201021a01071a0176";
  expect(Buffer.from(bytes).toString("hex")).toBe(expected);
  expect(fromBinary(PredictRequestSchema, bytes)).toEqual(request);
});
