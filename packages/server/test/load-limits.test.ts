import http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, PredictRequestSchema } from "@dlrm/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exampleRequest, inputsOf, scoresOf } from "./example-requests.ts";
import { HeldDevice } from "./held-device.ts";
import { frame, PREDICT_PATH, type RawAnswer, RawHttp2Client } from "./raw-http2.ts";
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

const BUFFERED = { maxMessageBytes: 20_000, maxBufferedBytes: 107_072 };
const OVER_BUFFERED =
  /^the server is overloaded: \d+ of at most 107072 bytes of requests are buffered \(--max-buffered-bytes\)$/u;

test("more messages at one time than may be decompressed are RESOURCE_EXHAUSTED, and plain ones and later ones are not", async () => {
  await using server = await startTestServer(bundle, BUFFERED);
  await using client = new RawHttp2Client(server.port);
  const compressed = frame(gzipSync(messageOf(1, 1)), 1);
  const call = (): Promise<RawAnswer> => client.call(compressed, { "grpc-encoding": "gzip" });
  const many = Array.from({ length: 64 }, call);
  const answers = await Promise.all(many);
  const refused = answers.filter(({ grpcStatus }) => grpcStatus !== 0);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(answers.length);
  for (const { grpcStatus, grpcMessage } of refused) {
    expect(grpcStatus).toBe(Code.ResourceExhausted);
    expect(grpcMessage).toMatch(OVER_BUFFERED);
  }
  expect(server.stats.refusedRequests).toEqual({ RESOURCE_EXHAUSTED: refused.length });
  for (let again = 0; again < 3; again++) expect((await call()).grpcStatus).toBe(0);
});

test("more bytes of messages in pieces than may be buffered are RESOURCE_EXHAUSTED, until others have gone", async () => {
  await using server = await startTestServer(bundle, BUFFERED);
  await using client = new RawHttp2Client(server.port);
  const web = { "content-type": "application/grpc-web" };
  const held = Array.from({ length: 5 }, () => client.open(web));
  for (const stream of held) stream.on("error", () => {}).write(frame(Buffer.alloc(19_500)).subarray(0, 19_000));
  await client.settled();
  const large = await client.call(frame(Buffer.alloc(19_000)), web);
  expect(large.grpcStatus).toBe(Code.ResourceExhausted);
  expect(large.grpcMessage).toMatch(OVER_BUFFERED);
  expect((await client.call(frame(messageOf(1, 1)), web)).grpcStatus).toBe(0);
  for (const stream of held) stream.close(http2.constants.NGHTTP2_CANCEL);
  await client.settled();
  // Malformed, but read.
  const [first, second] = await Promise.all([1, 2].map(() => client.call(frame(Buffer.alloc(19_000)), web)));
  expect([first?.grpcStatus, second?.grpcStatus]).toEqual([Code.InvalidArgument, Code.InvalidArgument]);
});

test("what is refused before it is scored is counted once, by its code", async () => {
  await using server = await startTestServer(bundle, { maxMessageBytes: 20_000 });
  await using client = new RawHttp2Client(server.port);
  const message = frame(messageOf(1, 1));
  const counts = async (): Promise<Readonly<Record<string, number>>> => {
    await client.settled();
    return server.stats.refusedRequests;
  };
  expect((await client.call(message, { "grpc-timeout": "soon" })).grpcStatus).toBe(Code.InvalidArgument);
  expect(await counts()).toEqual({ INVALID_ARGUMENT: 1 });
  expect((await client.call(message, { "grpc-encoding": "snappy" })).grpcStatus).toBe(Code.Unimplemented);
  expect(await counts()).toEqual({ INVALID_ARGUMENT: 1, UNIMPLEMENTED: 1 });
  // In several frames: too large by its header, and soon by what has come.
  const tooLarge = frame(Buffer.alloc(60_000));
  expect((await client.call(tooLarge)).grpcStatus).toBe(Code.ResourceExhausted);
  expect(await counts()).toEqual({ INVALID_ARGUMENT: 1, UNIMPLEMENTED: 1, RESOURCE_EXHAUSTED: 1 });

  const late = client.open({ "grpc-timeout": "1n" });
  const status = new Promise<unknown>((resolve) => {
    late.on("response", (fields) => resolve(fields["grpc-status"])).on("error", () => {});
  });
  late.resume().write(message.subarray(0, 10));
  await client.settled();
  late.end(message.subarray(10));
  expect(await status).toBe(String(Code.DeadlineExceeded));
  const grpc = { INVALID_ARGUMENT: 1, UNIMPLEMENTED: 1, RESOURCE_EXHAUSTED: 1, DEADLINE_EXCEEDED: 1 };
  expect(await counts()).toEqual(grpc);

  const web = { "content-type": "application/grpc-web" };
  expect((await client.call(tooLarge, web)).grpcStatus).toBe(Code.ResourceExhausted);
  expect(await counts()).toEqual({ ...grpc, RESOURCE_EXHAUSTED: 2 });
  const connect = await fetch(`${baseUrl(server.port)}${PREDICT_PATH}`, {
    method: "POST",
    headers: { "content-type": "application/proto", "content-encoding": "gzip" },
    body: Buffer.from("plain"),
  });
  expect(connect.status).toBe(400);
  expect(await counts()).toEqual({ ...grpc, RESOURCE_EXHAUSTED: 2, INVALID_ARGUMENT: 2 });
  // What Connect itself would refuse by the headers.
  expect((await client.call(message, { ...web, "grpc-timeout": "soon" })).grpcStatus).toBe(Code.InvalidArgument);
  expect(await counts()).toEqual({ ...grpc, RESOURCE_EXHAUSTED: 2, INVALID_ARGUMENT: 3 });
  expect((await client.call(message, { ...web, "grpc-encoding": "snappy" })).grpcStatus).toBe(Code.Unimplemented);
  expect(await counts()).toEqual({ ...grpc, RESOURCE_EXHAUSTED: 2, INVALID_ARGUMENT: 3, UNIMPLEMENTED: 2 });
  for (const [name, value, code] of [
    ["connect-timeout-ms", "soon", "invalid_argument"],
    ["content-encoding", "snappy", "unimplemented"],
  ] as const) {
    const refused = await fetch(`${baseUrl(server.port)}${PREDICT_PATH}`, {
      method: "POST",
      headers: { "content-type": "application/proto", [name]: value },
      body: Buffer.from(messageOf(1, 1)),
    });
    expect(await refused.json()).toMatchObject({ code });
  }
  expect(await counts()).toEqual({ ...grpc, RESOURCE_EXHAUSTED: 2, INVALID_ARGUMENT: 4, UNIMPLEMENTED: 3 });
  // Other methods are no requests for scores.
  const check = { ":path": "/grpc.health.v1.Health/Check" };
  expect((await client.call(tooLarge, check)).grpcStatus).toBe(Code.ResourceExhausted);
  const badCheck = { ...check, "grpc-timeout": "soon" };
  expect((await client.call(frame(Buffer.alloc(0)), badCheck)).grpcStatus).toBe(Code.InvalidArgument);
  expect(await counts()).toEqual({ ...grpc, RESOURCE_EXHAUSTED: 2, INVALID_ARGUMENT: 4, UNIMPLEMENTED: 3 });
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
