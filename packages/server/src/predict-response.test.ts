import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { DataType, PredictResponseSchema } from "@dlrm/proto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { framePredictResponse } from "./predict-response.ts";

test("a response is what protobuf's own encoder makes of it, in one frame", () => {
  fc.assert(
    fc.property(
      fc.float32Array({ minLength: 1, maxLength: 6000 }),
      fc.string({ unit: "grapheme" }),
      (values, version) => {
        const scores = Float32Array.from(values);
        const framed = framePredictResponse(scores, version);
        expect([framed[0], framed.readUInt32BE(1)]).toEqual([0, framed.length - 5]);
        const message = framed.subarray(5);
        const parsed = fromBinary(PredictResponseSchema, message);
        expect(parsed.version).toBe(version);
        expect(Object.keys(parsed.outputs)).toEqual(["scores"]);
        const { dataType, shape, data } = parsed.outputs["scores"]!;
        expect(dataType).toBe(DataType.FLOAT32);
        expect(shape).toEqual([BigInt(scores.length)]);
        expect(Buffer.from(data).equals(Buffer.from(scores.buffer))).toBe(true);
        expect(Buffer.from(toBinary(PredictResponseSchema, parsed)).equals(message)).toBe(true);
      },
    ),
    {
      seed: 3,
      examples: [
        [new Float32Array(31), "1"],
        [new Float32Array(32), ""],
        [new Float32Array(4096), "7"],
      ],
    },
  );
});
