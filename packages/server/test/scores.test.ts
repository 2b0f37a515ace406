import { createClient } from "@connectrpc/connect";
import { DataType, PredictionService } from "@dlrm/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exampleRequest, expectReferenceScores, inputsOf, scoresOf } from "./example-requests.ts";
import {
  baseUrl,
  grpcClient,
  startTestServer,
  type TemporaryBundle,
  temporaryBundle,
  TRANSPORTS,
} from "./serving-fixture.ts";

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

describe.each(["onnxruntime", "simulated"] as const)("with the device %s", (device) => {
  const network = device === "simulated" ? "simulated" : "network";

  describe("over every protocol", () => {
    let server: Awaited<ReturnType<typeof startTestServer>>;
    beforeAll(async () => {
      server = await startTestServer(bundle, { device, deviceThreads: 1 });
    });
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
    });

    test.each(Object.entries(TRANSPORTS))("%s gets the reference's scores", async (_protocol, transport) => {
      const client = createClient(PredictionService, transport(server.port));
      for (const batch of [1, 2, 16, 64]) {
        const request = exampleRequest(batch, batch);
        const { outputs, version } = await client.predict({ model: "tiny", version: "3", inputs: inputsOf(request) });
        expect(version).toBe("3");
        await expectReferenceScores(bundle, request, scoresOf(outputs), network);
      }
    });
  });

  test.each(["off", "window", "adaptive"] as const)(
    "concurrent requests get their own scores with batching %s",
    async (batching) => {
      await using server = await startTestServer(bundle, {
        device,
        batching,
        deviceThreads: 1,
        batchTimeoutMicros: 500,
      });
      const client = grpcClient(server.port);
      const requests = Array.from({ length: 60 }, (_, index) => exampleRequest(index, 1 + (index % 7)));
      await Promise.all(
        requests.map(async (request) => {
          const { outputs } = await client.predict({ inputs: inputsOf(request) });
          await expectReferenceScores(bundle, request, scoresOf(outputs), network);
        }),
      );
      expect(server.stats).toEqual({
        answeredRequests: 60,
        answeredExamples: requests.reduce((sum, { batch }) => sum + batch, 0),
        refusedRequests: {},
      });
    },
  );

  test("requests larger than a batch are split and joined in order", async () => {
    await using server = await startTestServer(bundle, { device, maxBatchSize: 5, deviceThreads: 1 });
    const client = grpcClient(server.port);
    const requests = [exampleRequest(1, 37), exampleRequest(2, 5), exampleRequest(3, 6), exampleRequest(4, 1)];
    await Promise.all(
      requests.map(async (request) => {
        const { outputs } = await client.predict({ inputs: inputsOf(request) });
        await expectReferenceScores(bundle, request, scoresOf(outputs), network);
      }),
    );
    expect(server.stats.answeredExamples).toBe(37 + 5 + 6 + 1);
  });
});

test("a request written by hand as JSON gets the reference's score over HTTP/1.1", async () => {
  await using server = await startTestServer(bundle);
  // One example: dense [0.5, -1, 2]; ids [1, 2, 49], [6], [999, 0, 1, 2, 3] and [0, 0].
  const body = `{
    "model": "tiny",
    "inputs": {
      "dense":    { "dataType": "DATA_TYPE_FLOAT32", "shape": ["1", "3"], "data": "AAAAPwAAgL8AAABA" },
      "sparse_0": { "dataType": "DATA_TYPE_INT32",   "shape": [1, 3],     "data": "AQAAAAIAAAAxAAAA" },
      "sparse_1": { "dataType": "DATA_TYPE_INT64",   "shape": [1, 1],     "data": "BgAAAAAAAAA=" },
      "sparse_2": { "dataType": "DATA_TYPE_INT32",   "shape": [1, 5],     "data": "5wMAAAAAAAABAAAAAgAAAAMAAAA=" },
      "sparse_3": { "dataType": "DATA_TYPE_INT32",   "shape": [1, 2],     "data": "AAAAAAAAAAA=" }
    }
  }`;
  const response = await fetch(`${baseUrl(server.port)}/dlrm.serving.v1.PredictionService/Predict`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(response.status).toBe(200);
  const answer = (await response.json()) as {
    version: string;
    outputs: { scores: { dataType: string; shape: string[]; data: string } };
  };
  expect(answer).toEqual({
    version: "3",
    outputs: { scores: { dataType: "DATA_TYPE_FLOAT32", shape: ["1"], data: expect.any(String) as string } },
  });
  const score = Buffer.from(answer.outputs.scores.data, "base64").readFloatLE(0);
  const request = {
    batch: 1,
    dense: Float32Array.of(0.5, -1, 2),
    ids: [Int32Array.of(1, 2, 49), Int32Array.of(6), Int32Array.of(999, 0, 1, 2, 3), Int32Array.of(0, 0)],
  };
  await expectReferenceScores(bundle, request, [score]);
});

test("the metadata say inputs, outputs, tables, buckets and limits", async () => {
  await using server = await startTestServer(bundle, { maxBatchSize: 20, maxMessageBytes: 1_000_000 });
  const metadata = await grpcClient(server.port).getModelMetadata({});
  const { FLOAT32, INT32, INT64 } = DataType;
  expect({ model: metadata.model, version: metadata.version }).toEqual({ model: "tiny", version: "3" });
  expect(metadata.inputs.map(({ name, dataTypes, shape }) => [name, dataTypes, shape])).toEqual([
    ["dense", [FLOAT32], [-1n, 3n]],
    ["sparse_0", [INT32, INT64], [-1n, 3n]],
    ["sparse_1", [INT32, INT64], [-1n, 1n]],
    ["sparse_2", [INT32, INT64], [-1n, 5n]],
    ["sparse_3", [INT32, INT64], [-1n, 2n]],
  ]);
  expect(metadata.outputs.map(({ name, dataTypes, shape }) => [name, dataTypes, shape])).toEqual([
    ["scores", [FLOAT32], [-1n]],
  ]);
  expect(
    metadata.tables.map(({ input, vocabularySize, embeddingDim, hotSize }) => [
      input,
      vocabularySize,
      embeddingDim,
      hotSize,
    ]),
  ).toEqual([
    ["sparse_0", 50n, 8, 3],
    ["sparse_1", 7n, 8, 1],
    ["sparse_2", 1000n, 8, 5],
    ["sparse_3", 1n, 8, 2],
  ]);
  expect(metadata.buckets).toEqual([1, 2, 4, 8, 16, 32]);
  expect(metadata.limits).toMatchObject({
    maxMessageBytes: 1_000_000n,
    maxExamplesPerRequest: 4096,
    maxBatchSize: 20,
    maxEnqueuedExamples: 16_384,
  });
});
