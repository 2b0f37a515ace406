import { expect, test } from "vitest";
import { PredictDecoder } from "../bench/predict-decoder.ts";
import { requestBody } from "../bench/workload.ts";

test.each([
  [1, 1500],
  [16, 15_000],
  [128, 117_000],
])("the bench's request of %d examples is decoded whole", (examples, bytes) => {
  const body = requestBody(examples);
  expect(Math.abs(body.length - bytes) / bytes).toBeLessThan(0.1);
  const decoder = new PredictDecoder();
  decoder.decode(body, 5, body.length);
  expect([decoder.tensors, decoder.bytes]).toEqual([27, examples * (13 + 214) * 4]);
  // Tensors come in the order of the request: dense first.
  const dense = new Float32Array(decoder.elements.slice(0, 52).buffer);
  expect([...dense]).toEqual([...Float32Array.from({ length: 13 }, (_, index) => index / 7)]);
});
