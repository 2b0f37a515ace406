import { once } from "node:events";
import http from "node:http";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { PredictRequestSchema } from "@dlrm/proto";
import type { RunningServer } from "@dlrm/server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exampleRequest, inputsOf } from "./example-requests.ts";
import { frame, PREDICT_PATH, RawHttp2Client } from "./raw-http2.ts";
import { baseUrl, startTestServer, type TemporaryBundle, temporaryBundle } from "./serving-fixture.ts";

let bundle: TemporaryBundle;
let server: RunningServer & AsyncDisposable;
let client: RawHttp2Client;
beforeAll(async () => {
  bundle = await temporaryBundle();
  server = await startTestServer(bundle);
  client = new RawHttp2Client(server.port);
});
afterAll(async () => {
  // First, as a client waits for its calls.
  await server[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await bundle[Symbol.asyncDispose]();
});

const METADATA_PATH = PREDICT_PATH.replace(/[^/]+$/u, "GetModelMetadata");
const HEALTH_PATH = "/grpc.health.v1.Health/Check";
const REFLECTION_PATH = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/** A frame's header that says more than will come. */
const BEGINNING = Buffer.from([0, 0, 0, 0, 100, 1, 2, 3]);

const late = (): number => server.stats.refusedRequests["DEADLINE_EXCEEDED"] ?? 0;

describe("a request whose body does not end is DEADLINE_EXCEEDED when its deadline passes", () => {
  test.each([
    ["application/grpc", PREDICT_PATH, BEGINNING],
    ["application/grpc", PREDICT_PATH, Buffer.alloc(0)],
    ["application/grpc", METADATA_PATH, BEGINNING],
    ["application/grpc", HEALTH_PATH, BEGINNING],
    ["application/grpc", REFLECTION_PATH, BEGINNING],
    ["application/grpc-web", PREDICT_PATH, BEGINNING],
    ["application/grpc-web", PREDICT_PATH, Buffer.alloc(0)],
    ["application/grpc-web+json", HEALTH_PATH, BEGINNING],
  ])("%s %s, after %o", async (contentType, path, beginning) => {
    const before = late();
    const { grpcStatus } = await client.callUnfinished(beginning, {
      "content-type": contentType,
      ":path": path,
      "grpc-timeout": "30m",
    });
    expect(grpcStatus).toBe(Code.DeadlineExceeded);
    expect(late()).toBe(path === PREDICT_PATH ? before + 1 : before);
  });

  test.each([
    ["application/proto", PREDICT_PATH],
    ["application/json", PREDICT_PATH],
    ["application/json", METADATA_PATH],
  ])("Connect over HTTP/2, %s %s", async (contentType, path) => {
    const before = late();
    const { httpStatus, body } = await client.callUnfinished(Buffer.from("{"), {
      "content-type": contentType,
      ":path": path,
      "connect-timeout-ms": "30",
    });
    expect(httpStatus).toBe(504);
    expect(JSON.parse(body.toString())).toMatchObject({ code: "deadline_exceeded" });
    expect(late()).toBe(path === PREDICT_PATH ? before + 1 : before);
  });

  test.each([
    ["application/proto", "connect-timeout-ms", "30", 504],
    ["application/json", "connect-timeout-ms", "30", 504],
    ["application/grpc-web", "grpc-timeout", "30m", 200],
  ])("%s over HTTP/1.1", async (contentType, timeoutHeader, timeout, status) => {
    const before = late();
    const request = http.request(`${baseUrl(server.port)}${PREDICT_PATH}`, {
      method: "POST",
      headers: { "content-type": contentType, [timeoutHeader]: timeout },
    });
    request.on("error", () => {}).write(BEGINNING);
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    const text = Buffer.concat(await response.toArray()).toString();
    expect(response.statusCode).toBe(status);
    expect(text).toMatch(/deadline_exceeded|grpc-status: 4/u);
    expect(late()).toBe(before + 1);
    request.destroy();
  });
});

test.each([
  ["application/grpc", "grpc-timeout", "99999999H"],
  ["application/grpc-web", "grpc-timeout", "99999999H"],
  ["application/proto", "connect-timeout-ms", "9999999999"],
])("%s: a deadline further away than a timer can be does not pass at once", async (contentType, name, timeout) => {
  const call = client.open({ "content-type": contentType, [name]: timeout });
  // A timer that goes off at once would have done so by now.
  await client.settled();
  const message = toBinary(
    PredictRequestSchema,
    create(PredictRequestSchema, { inputs: inputsOf(exampleRequest(1, 1)) }),
  );
  const { httpStatus, grpcStatus } = await client.finish(
    call,
    contentType === "application/proto" ? message : frame(message),
  );
  expect([httpStatus, grpcStatus ?? 0]).toEqual([200, 0]);
});
