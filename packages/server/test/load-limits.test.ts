import http2 from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, PredictRequestSchema } from "@dlrm/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exampleRequest, inputsOf, scoresOf } from "./example-requests.ts";
import { HeldDevice } from "./held-device.ts";
import { frame, RawHttp2Client } from "./raw-http2.ts";
import { baseUrl, grpcClient, startTestServer, type TemporaryBundle, temporaryBundle } from "./serving-fixture.ts";

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

const messageOf = (seed: number, batch: number): Uint8Array =>
  toBinary(PredictRequestSchema, create(PredictRequestSchema, { inputs: inputsOf(exampleRequest(seed, batch)) }));

test("requests beyond what may wait are RESOURCE_EXHAUSTED, with a pushback, and the others are answered", async () => {
  const device = new HeldDevice();
  await using server = await startTestServer(bundle, {
    device: device.open,
    maxBatchSize: 2,
    maxExamplesPerRequest: 4,
    maxEnqueuedExamples: 4,
  });
  await using client = new RawHttp2Client(server.port);
  using _release = device;
  const begun = device.hold();
  const running = client.call(frame(messageOf(1, 2)));
  await begun;
  // On one connection they come in order: 2 + 2 examples may wait, the rest may not.
  const others = [2, 3, 4, 5, 6].map((seed) => client.call(frame(messageOf(seed, 2))));
  const refused = await Promise.all(others.slice(2));
  for (const { grpcStatus, grpcMessage, metadata } of refused) {
    expect(grpcStatus).toBe(Code.ResourceExhausted);
    expect(grpcMessage).toBe("the server is overloaded: 4 of at most 4 examples wait (--max-enqueued-examples)");
    expect(Number(metadata["grpc-retry-pushback-ms"])).toBeGreaterThanOrEqual(0);
  }
  device.release();
  for (const { grpcStatus } of await Promise.all([running, ...others.slice(0, 2)])) expect(grpcStatus).toBe(0);
  expect((await client.call(frame(messageOf(7, 2)))).grpcStatus).toBe(0);
  expect(server.stats.refusedRequests).toEqual({ RESOURCE_EXHAUSTED: 3 });
});

test.each([1, 2])("a limit of bytes is as one of examples, with %i frontends", async (frontends) => {
  const device = new HeldDevice();
  // An example has 11 ids and 3 dense features: 56 bytes.
  await using server = await startTestServer(bundle, {
    frontends,
    device: device.open,
    maxBatchSize: 2,
    maxExamplesPerRequest: 2,
    maxEnqueuedBytes: 2 * 56 + 55,
  });
  await using client = new RawHttp2Client(server.port);
  using _release = device;
  const begun = device.hold();
  const running = client.call(frame(messageOf(1, 2)));
  await begun;
  const waiting = client.call(frame(messageOf(2, 2)));
  const { grpcStatus, grpcMessage } = await client.call(frame(messageOf(3, 1)));
  expect(grpcStatus).toBe(Code.ResourceExhausted);
  expect(grpcMessage).toBe("the server is overloaded: 112 of at most 167 bytes wait (--max-enqueued-bytes)");
  device.release();
  expect((await running).grpcStatus).toBe(0);
  expect((await waiting).grpcStatus).toBe(0);
});

test.each([1, 2])(
  "dropped for overload is who found no room, and nobody else, with %i frontends",
  async (frontends) => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, {
      frontends,
      adminPort: 0,
      device: device.open,
      maxBatchSize: 2,
      maxExamplesPerRequest: 2,
      maxEnqueuedExamples: 2,
    });
    await using client = new RawHttp2Client(server.port);
    using _release = device;
    const begun = device.hold();
    const running = client.call(frame(messageOf(1, 2)));
    await begun;
    const late = await client.call(frame(messageOf(2, 1)), { "grpc-timeout": "0n" });
    expect(late.grpcStatus).toBe(Code.DeadlineExceeded);
    const waiting = client.call(frame(messageOf(3, 2)));
    expect((await client.call(frame(messageOf(4, 1)))).grpcStatus).toBe(Code.ResourceExhausted);
    const text = await (await fetch(`http://127.0.0.1:${server.adminPort}/metrics`)).text();
    expect(text).toContain('\ndlrm_dropped_requests_total{why="overload",when="waiting"} 1\n');
    device.release();
    expect((await running).grpcStatus).toBe(0);
    expect((await waiting).grpcStatus).toBe(0);
  },
);

test("a request whose deadline passes while it waits is DEADLINE_EXCEEDED at once, and never run", async () => {
  const device = new HeldDevice();
  await using server = await startTestServer(bundle, { device: device.open, maxBatchSize: 8 });
  await using client = new RawHttp2Client(server.port);
  using _release = device;
  const begun = device.hold();
  const running = client.call(frame(messageOf(1, 1)));
  await begun;
  const late = await client.call(frame(messageOf(2, 4)), { "grpc-timeout": "30m" });
  expect(late.grpcStatus).toBe(Code.DeadlineExceeded);
  const connect = await fetch(`${baseUrl(server.port)}/dlrm.serving.v1.PredictionService/Predict`, {
    method: "POST",
    headers: { "content-type": "application/proto", "connect-timeout-ms": "30" },
    body: Buffer.from(messageOf(2, 4)),
  });
  expect(await connect.json()).toMatchObject({ code: "deadline_exceeded" });
  expect((await client.call(frame(messageOf(2, 4)), { "grpc-timeout": "0n" })).grpcStatus).toBe(Code.DeadlineExceeded);
  device.release();
  expect((await running).grpcStatus).toBe(0);
  // The warm-up, and the request of one example.
  expect(device.begun).toEqual([1, 1]);
});

test("a request that its caller cancels while it waits is never run", async () => {
  const device = new HeldDevice();
  await using server = await startTestServer(bundle, { device: device.open, maxBatchSize: 8 });
  await using client = new RawHttp2Client(server.port);
  using _release = device;
  const begun = device.hold();
  const running = client.call(frame(messageOf(1, 1)));
  await begun;
  const cancelled = client.open();
  cancelled.end(frame(messageOf(2, 4)));
  cancelled.on("error", () => {});
  await client.settled();
  cancelled.close(http2.constants.NGHTTP2_CANCEL);
  await client.settled();
  expect(server.stats.refusedRequests).toEqual({ CANCELLED: 1 });
  const next = client.call(frame(messageOf(3, 2)));
  await client.settled();
  device.release();
  expect((await running).grpcStatus).toBe(0);
  expect((await next).grpcStatus).toBe(0);
  expect(device.begun).toEqual([1, 1, 2]);
});

test("a failed batch is INTERNAL for its requests only", async () => {
  const device = new HeldDevice();
  await using server = await startTestServer(bundle, { device: device.open });
  const client = grpcClient(server.port);
  device.failWith(new Error("out of memory"));
  const error = await client
    .predict({ inputs: inputsOf(exampleRequest(1, 2)) })
    .catch((reason: unknown) => ConnectError.from(reason));
  expect(error).toBeInstanceOf(ConnectError);
  expect((error as ConnectError).code).toBe(Code.Internal);
  expect((error as ConnectError).rawMessage).toContain("out of memory");
  device.failWith(undefined);
  const request = exampleRequest(2, 2);
  const { outputs } = await client.predict({ inputs: inputsOf(request) });
  expect(scoresOf(outputs)).toEqual([request.dense[0], request.dense[3]]);
});

test("many calls over one connection leave nothing behind", async () => {
  await using server = await startTestServer(bundle);
  const transport = createGrpcTransport({ baseUrl: baseUrl(server.port) });
  const health = createClient(Health, transport);
  const client = grpcClient(server.port);
  const inputs = inputsOf(exampleRequest(1, 1));
  for (let round = 0; round < 3; round++) {
    await Promise.all(Array.from({ length: 100 }, () => client.predict({ inputs })));
  }
  await health.check({});
  expect(server.stats.answeredRequests).toBe(300);
  expect(await server.drain()).toEqual({ unfinishedRequests: 0 });
});
