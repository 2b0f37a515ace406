import { once } from "node:events";
import { createServer } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { openReference, type ReferenceModel } from "@dlrm/model";
import {
  GetModelMetadataRequestSchema,
  GetModelMetadataResponseSchema,
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  PredictionService,
  PredictRequestSchema,
  PredictResponseSchema,
  ServingStatus,
} from "@dlrm/proto";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tinyBundle, tinyInput, tinyRequest } from "../test/tiny-bundle.ts";
import { NodeServer, type NodeServerOptions } from "./node-server.ts";

let fixture: Awaited<ReturnType<typeof tinyBundle>>;
let reference: ReferenceModel;
const servers: NodeServer[] = [];
const clients: Client[] = [];

beforeAll(async () => {
  fixture = await tinyBundle();
  reference = await openReference(fixture.bundle);
});
afterAll(async () => {
  for (const client of clients) client.close();
  await Promise.all(servers.map((server) => server.drain(0)));
  await reference.close();
  await fixture.remove();
});

async function listen(change: Partial<NodeServerOptions> = {}): Promise<NodeServer> {
  const server = await NodeServer.listen({
    bundle: fixture.bundle.dir,
    host: "127.0.0.1",
    port: 0,
    platform: "sim",
    numThreads: 1,
    maxBatchSize: 8,
    log: () => undefined,
    ...change,
  });
  servers.push(server);
  return server;
}

/** Calls with bytes; rejects with the ServiceError of the answer. */
function callerOf(server: NodeServer): (path: string, bytes: Uint8Array) => Promise<Buffer> {
  const client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
  clients.push(client);
  const same = (bytes: Buffer): Buffer => bytes;
  return (path, bytes) =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest<Buffer, Buffer>(path, same, same, Buffer.from(bytes), (error, answer) => {
        if (error === null) resolve(answer as Buffer);
        else reject(error);
      });
    });
}

const PREDICT = `/${PredictionService.typeName}/Predict`;
const predict = async (call: ReturnType<typeof callerOf>, batch: number, wide = false): Promise<Float32Array> => {
  const request = tinyRequest(tinyInput(batch), wide);
  const answer = fromBinary(PredictResponseSchema, await call(PREDICT, toBinary(PredictRequestSchema, request)));
  expect([answer.version, answer.outputs["scores"]?.shape]).toEqual(["3", [BigInt(batch)]]);
  return new Float32Array(new Uint8Array(answer.outputs["scores"]?.data as Uint8Array).buffer);
};

async function health(call: ReturnType<typeof callerOf>, service = ""): Promise<number> {
  const request = toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service }));
  return fromBinary(HealthCheckResponseSchema, await call("/grpc.health.v1.Health/Check", request)).status;
}

describe.each([
  ["sim", "simulated"],
  ["cpu", "network"],
] as const)("on %s", (platform, network) => {
  test("scores are the reference's, also in pieces of the largest batch and of requests at one time", async () => {
    const server = await listen({ platform });
    const call = callerOf(server);
    expect(await health(call)).toBe(ServingStatus.NOT_SERVING);
    await server.load();
    expect(await health(call)).toBe(ServingStatus.SERVING);
    const sizes = [1, 3, 8, 9, 20, 2, 1, 5];
    const answers = await Promise.all(sizes.map((batch, i) => predict(call, batch, i % 2 === 1)));
    for (const [i, batch] of sizes.entries()) {
      const expected = await reference.forward(tinyInput(batch), network);
      const scores = answers[i] as Float32Array;
      expect(scores).toHaveLength(batch);
      for (const [at, score] of scores.entries()) expect(Math.abs(score - (expected[at] ?? 9))).toBeLessThan(1e-5);
    }
  });
});

describe("the services", () => {
  let server: NodeServer;
  let call: ReturnType<typeof callerOf>;
  beforeAll(async () => {
    server = await listen();
    call = callerOf(server);
  });

  test("before the model is there, requests are UNAVAILABLE", async () => {
    const expected = { code: status.UNAVAILABLE, details: "the server is starting: the model is being loaded" };
    await expect(predict(call, 1)).rejects.toMatchObject(expected);
    await server.load();
    expect(await predict(call, 1)).toHaveLength(1);
  });

  test("health knows the server and its service, and no other", async () => {
    expect(await health(call, PredictionService.typeName)).toBe(ServingStatus.SERVING);
    await expect(health(call, "other")).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  test("metadata tells inputs, tables, buckets and limits", async () => {
    const path = `/${PredictionService.typeName}/GetModelMetadata`;
    const bytes = toBinary(GetModelMetadataRequestSchema, create(GetModelMetadataRequestSchema, { model: "tiny" }));
    const metadata = fromBinary(GetModelMetadataResponseSchema, await call(path, bytes));
    expect(metadata).toMatchObject({
      model: "tiny",
      version: "3",
      buckets: [1, 2, 4, 8],
      limits: { maxExamplesPerRequest: 4096, maxBatchSize: 8, maxMessageBytes: 1n << 20n },
    });
    expect(metadata.inputs.map(({ name }) => name)).toEqual(["dense", "sparse_0", "sparse_1"]);
    expect(metadata.tables.map(({ vocabularySize, hotSize }) => [vocabularySize, hotSize])).toEqual([
      [50n, 5],
      [7n, 1],
    ]);
  });

  test.each([
    ["that is no message", () => Buffer.of(0x12, 0xff), status.INVALID_ARGUMENT, "the request is not a PredictRequest"],
    ["over the size limit", () => Buffer.alloc(2 ** 20 + 1), status.RESOURCE_EXHAUSTED, "larger than max"],
  ])("a request %s is refused", async (_, bytes, code, details) => {
    const error = await call(PREDICT, bytes()).catch((thrown: unknown) => thrown as ServiceError);
    expect(error).toMatchObject({ code, details: expect.stringContaining(details) });
  });

  test("a bad request is answered with its reason, and the next one with scores", async () => {
    const request = tinyRequest(tinyInput(2));
    delete request.inputs["sparse_1"];
    await expect(call(PREDICT, toBinary(PredictRequestSchema, request))).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: 'input "sparse_1" is missing: expected 3 inputs, got 2',
    });
    expect(await predict(call, 2)).toHaveLength(2);
  });
});

test("a port in use is an error that names it", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as { port: number };
  await expect(listen({ port })).rejects.toThrow(new RegExp(`^cannot listen on 127.0.0.1:${port}: .*EADDRINUSE`));
  holder.close();
});
