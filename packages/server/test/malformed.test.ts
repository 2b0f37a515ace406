import { once } from "node:events";
import net from "node:net";
import { gzipSync } from "node:zlib";
import { toBinary, toJsonString, create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { PredictRequestSchema, PredictResponseSchema } from "@dlrm/proto";
import { fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunningServer } from "@dlrm/server";
import { exampleRequest, inputsOf, randomSource, scoresOf } from "./example-requests.ts";
import { frame, PREDICT_PATH, RawHttp2Client, type RawAnswer } from "./raw-http2.ts";
import { baseUrl, startTestServer, type TemporaryBundle, temporaryBundle } from "./serving-fixture.ts";

const MAX_MESSAGE_BYTES = 20_000;

let bundle: TemporaryBundle;
let server: RunningServer & AsyncDisposable;
let client: RawHttp2Client;
let expected: readonly number[];
const request = exampleRequest(11, 2);
const validMessage = toBinary(
  PredictRequestSchema,
  create(PredictRequestSchema, { model: "tiny", inputs: inputsOf(request) }),
);

beforeAll(async () => {
  bundle = await temporaryBundle();
  server = await startTestServer(bundle, { maxMessageBytes: MAX_MESSAGE_BYTES, maxBatchSize: 16 });
  client = new RawHttp2Client(server.port);
  expected = [...(await bundle.reference.forward(request, "simulated"))];
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await bundle[Symbol.asyncDispose]();
});

/** Name of a gRPC answer's code, `OK` for 0; undefined if it is no gRPC answer. */
function codeName({ grpcStatus }: RawAnswer): string | undefined {
  return grpcStatus === 0 ? "OK" : Code[grpcStatus ?? -1];
}

/** A good request on the same connection gets its scores. */
async function expectGoodAnswer(): Promise<void> {
  const { grpcStatus, body } = await client.call(frame(validMessage));
  expect(grpcStatus).toBe(0);
  const { outputs } = fromBinary(PredictResponseSchema, body.subarray(5));
  for (const [example, score] of scoresOf(outputs).entries()) expect(score).toBeCloseTo(expected[example] as number, 4);
}

/** Sends `body` among good requests on the same connection. */
async function callAmongGood(body: Uint8Array, headers: Record<string, string> = {}): Promise<RawAnswer> {
  const before = expectGoodAnswer();
  const answer = client.call(body, headers);
  await Promise.all([before, expectGoodAnswer()]);
  await expectGoodAnswer();
  return await answer;
}

describe.each(["application/grpc", "application/grpc-web"])("as %s", (contentType) => {
  const { sparse_0: _, ...inputsButOne } = inputsOf(request);
  const duplicate = Buffer.concat([
    toBinary(PredictRequestSchema, create(PredictRequestSchema, { model: "tiny", inputs: inputsButOne })),
    toBinary(PredictRequestSchema, create(PredictRequestSchema, { inputs: { dense: inputsOf(request)["dense"]! } })),
  ]);
  const gzipped = gzipSync(validMessage);
  const bomb = gzipSync(Buffer.alloc(50_000_000));
  const gzip = { "grpc-encoding": "gzip" };
  const cases: readonly [string, Uint8Array, Record<string, string>, Code, string][] = [
    [
      "an input that came twice in the place of another",
      frame(duplicate),
      {},
      Code.InvalidArgument,
      'input "dense" came twice: expected once',
    ],
    ["no message", Buffer.alloc(0), {}, Code.Unimplemented, "malformed request: expected one message, got none"],
    [
      "half a frame header",
      Buffer.from([0, 0, 0]),
      {},
      Code.InvalidArgument,
      "malformed request: expected a frame header of 5 bytes, got 3 bytes",
    ],
    [
      "a message that is cut off",
      frame(validMessage).subarray(0, 100),
      {},
      Code.InvalidArgument,
      `malformed request: expected a message of ${validMessage.length} bytes in its frame, got 95 bytes`,
    ],
    [
      "two messages",
      Buffer.concat([frame(validMessage), frame(validMessage)]),
      {},
      Code.Unimplemented,
      `malformed request: expected one message, of ${validMessage.length} bytes as its frame says, got more bytes after it`,
    ],
    [
      "unknown frame flags",
      frame(validMessage, 0x82),
      {},
      Code.InvalidArgument,
      "malformed request: expected frame flags 0 or 1, got 130",
    ],
    [
      "a compressed frame without a grpc-encoding",
      frame(gzipped, 1),
      {},
      Code.InvalidArgument,
      "malformed request: the message is marked as compressed, but no header says how (expected gzip)",
    ],
    [
      "bytes that are not gzip",
      frame(Buffer.from("plain"), 1),
      gzip,
      Code.InvalidArgument,
      "malformed request: 5 bytes are not gzip: incorrect header check",
    ],
    [
      "gzip that is cut off",
      frame(gzipped.subarray(0, 30), 1),
      gzip,
      Code.InvalidArgument,
      "malformed request: 30 bytes are not gzip: unexpected end of file",
    ],
    [
      "a message over the limit",
      frame(Buffer.alloc(MAX_MESSAGE_BYTES + 1)),
      {},
      Code.ResourceExhausted,
      `the request message is over the limit of 20000 bytes (--max-message-bytes): got 20001 bytes`,
    ],
    [
      "a frame that claims 4 GiB",
      Buffer.from([0, 0xff, 0xff, 0xff, 0xff]),
      {},
      Code.ResourceExhausted,
      "the request message is over the limit of 20000 bytes (--max-message-bytes): got 4294967295 bytes",
    ],
    [
      "a message that grows over the limit when decompressed",
      frame(bomb.length > MAX_MESSAGE_BYTES ? gzipSync(Buffer.alloc(1_000_000)) : bomb, 1),
      gzip,
      Code.ResourceExhausted,
      `the request message is over the limit of 20000 bytes (--max-message-bytes): got more than that after decompression (${gzipSync(Buffer.alloc(1_000_000)).length} bytes before)`,
    ],
    [
      "a message of a field that is cut off",
      frame(Buffer.from([0x12, 0x20, 1])),
      {},
      Code.InvalidArgument,
      "malformed protobuf message of 3 bytes: field 2 of 32 bytes where 1 are left at byte 2",
    ],
    [
      "a model name that is not UTF-8",
      frame(Buffer.from([0x0a, 2, 0xc3, 0x28])),
      {},
      Code.InvalidArgument,
      "malformed protobuf message: field 1 is not UTF-8",
    ],
    [
      "a timeout that is none",
      frame(validMessage),
      { "grpc-timeout": "soon" },
      Code.InvalidArgument,
      "protocol error: invalid grpc timeout value: soon",
    ],
  ];

  test.each(cases)("%s is refused, and others are unharmed", async (_title, body, headers, code, message) => {
    const answer = await callAmongGood(body, { "content-type": contentType, ...headers });
    expect(answer.grpcMessage).toBe(message);
    expect(codeName(answer)).toBe(Code[code]);
  });

  test("an encoding that is not served is UNIMPLEMENTED, with those that are", async () => {
    const answer = await callAmongGood(frame(validMessage), { "content-type": contentType, "grpc-encoding": "snappy" });
    expect(answer.grpcStatus).toBe(Code.Unimplemented);
    expect(answer.grpcMessage).toContain("snappy");
    expect(answer.grpcMessage).toContain("gzip");
  });

  test("a method or service that does not exist is UNIMPLEMENTED", async () => {
    const answer = await callAmongGood(frame(validMessage), {
      "content-type": contentType,
      ":path": "/dlrm.serving.v1.PredictionService/Guess",
    });
    expect(answer.httpStatus).toBe(200);
    expect(answer.grpcStatus).toBe(Code.Unimplemented);
    expect(answer.grpcMessage).toBe("no such method: /dlrm.serving.v1.PredictionService/Guess");
  });

  test("a content type that is none of ours is refused by HTTP status", async () => {
    expect((await callAmongGood(frame(validMessage), { "content-type": "application/x-thrift" })).httpStatus).toBe(415);
    expect((await callAmongGood(Buffer.alloc(0), { ":method": "GET" })).httpStatus).toBe(405);
  });

  test("an authority that no URL can have is a bad request", async () => {
    expect(
      (await callAmongGood(frame(validMessage), { ":authority": "[", "content-type": "application/grpc-web" }))
        .httpStatus,
    ).toBe(400);
  });
});

describe("over Connect JSON", () => {
  const json = toJsonString(PredictRequestSchema, create(PredictRequestSchema, { inputs: inputsOf(request) }));
  const call = async (
    body: string,
    headers: Record<string, string> = {},
  ): Promise<{ code: string; message: string; status: number }> => {
    const good = expectGoodAnswer();
    const response = await fetch(`${baseUrl(server.port)}${PREDICT_PATH}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    });
    await good;
    await expectGoodAnswer();
    return { ...((await response.json()) as { code: string; message: string }), status: response.status };
  };

  test.each([
    ["no JSON", "model=tiny", "Unexpected token"],
    ["nothing", "", "Unexpected end of JSON input"],
    ["JSON of another type", "[]", "cannot decode message dlrm.serving.v1.PredictRequest from JSON"],
    ["a misspelt field", json.replace('"inputs"', '"inptus"'), 'key "inptus" is unknown'],
    ["data that is not base64", json.replace('"data":"', '"data":"*'), "base64"],
    ["a data type that does not exist", json.replace("DATA_TYPE_FLOAT32", "DATA_TYPE_FLOAT33"), "DATA_TYPE_FLOAT33"],
    ["an input that came twice", json.replace('"sparse_0":', '"dense":'), "dense"],
    ["a lone surrogate", '{"\\ud800": 1}', "is unknown"],
  ])("%s is INVALID_ARGUMENT", async (_title, body, message) => {
    const answer = await call(body);
    expect(answer).toMatchObject({ code: "invalid_argument", status: 400 });
    expect(answer.message).toContain("malformed JSON message dlrm.serving.v1.PredictRequest: ");
    expect(answer.message).toContain(message);
  });

  test("bytes that are not UTF-8 are INVALID_ARGUMENT", async () => {
    const response = await fetch(`${baseUrl(server.port)}${PREDICT_PATH}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: Buffer.from([0x22, 0xff, 0x22]),
    });
    expect(await response.json()).toMatchObject({ code: "invalid_argument" });
  });

  test("a message over the limit is RESOURCE_EXHAUSTED, by its declared length and by its bytes", async () => {
    const body = `{"model": "${"x".repeat(MAX_MESSAGE_BYTES)}"}`;
    const limit = "the request message is over the limit of 20000 bytes (--max-message-bytes): got ";
    expect(await call(body)).toEqual({
      code: "resource_exhausted",
      message: `${limit}${body.length} bytes`,
      status: 429,
    });
    const response = await fetch(`${baseUrl(server.port)}${PREDICT_PATH}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new Blob([body]).stream(),
      duplex: "half",
    });
    const answer = (await response.json()) as { code: string; message: string };
    expect(answer.code).toBe("resource_exhausted");
    expect(answer.message).toMatch(/got \d+ bytes and more$/u);
  });
});

describe("whatever is sent", () => {
  const isGrpcAnswer = (answer: RawAnswer): boolean =>
    answer.httpStatus === 200 && !["Internal", "Unknown", undefined].includes(codeName(answer));

  test("random bytes as a message get a gRPC error, and the server goes on", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), async (bytes) => {
        const answer = await client.call(frame(bytes));
        expect(isGrpcAnswer(answer), `${answer.grpcStatus} ${answer.grpcMessage}`).toBe(true);
        expect(answer.grpcStatus).not.toBe(0);
      }),
      { numRuns: 300, seed: 1 },
    );
    await expectGoodAnswer();
  });

  test("random bytes as a body, with random flags and compression, get a gRPC error", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 60 }),
        fc.constantFrom("identity", "gzip"),
        fc.constantFrom("application/grpc", "application/grpc+proto", "application/grpc+json", "application/grpc-web"),
        async (bytes, encoding, contentType) => {
          const answer = await client.call(bytes, { "grpc-encoding": encoding, "content-type": contentType });
          expect(isGrpcAnswer(answer), `${answer.grpcStatus} ${answer.grpcMessage}`).toBe(true);
          expect(answer.grpcStatus).not.toBe(0);
        },
      ),
      { numRuns: 200, seed: 2 },
    );
    await expectGoodAnswer();
  });

  test("a valid message with random changes gets scores or a gRPC error", async () => {
    const next = randomSource(5);
    const pick = (count: number): number => Math.floor(next() * count);
    const seen = new Set<number>();
    for (let run = 0; run < 600; run++) {
      let message = Buffer.from(validMessage);
      for (let change = 0; change <= pick(3); change++) {
        const at = pick(message.length);
        switch (pick(4)) {
          case 0:
            message[at] = pick(256);
            break;
          case 1:
            message = message.subarray(0, at);
            break;
          case 2:
            message = Buffer.concat([message.subarray(0, at), Buffer.from([pick(256)]), message.subarray(at)]);
            break;
          default:
            message = Buffer.concat([
              message.subarray(0, at),
              message.subarray(Math.min(message.length, at + pick(8))),
            ]);
        }
        if (message.length === 0) break;
      }
      const answer = await client.call(frame(message));
      expect(isGrpcAnswer(answer), `run ${run}: ${answer.grpcStatus} ${answer.grpcMessage}`).toBe(true);
      seen.add(answer.grpcStatus as number);
    }
    expect([...seen].sort((a, b) => a - b)).toEqual(expect.arrayContaining([0, Code.InvalidArgument, Code.NotFound]));
    await expectGoodAnswer();
  });

  test.each([
    ["nothing", ""],
    ["half an HTTP/2 preface", "PRI * HT"],
    ["a preface and noise", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u00ff\u0001garbage garbage garbage"],
    ["noise", "\u0016\u0003\u0001\u0002\u0000\u0001"],
    ["HTTP/1.1 without a host", "POST /dlrm.serving.v1.PredictionService/Predict HTTP/1.1\r\n\r\n"],
    [
      "HTTP/1.0 without a host",
      "POST /dlrm.serving.v1.PredictionService/Predict HTTP/1.0\r\ncontent-type: application/json\r\n\r\n",
    ],
    [
      "a malformed host",
      "POST /dlrm.serving.v1.PredictionService/Predict HTTP/1.1\r\nhost: [\r\ncontent-length: 0\r\n\r\n",
    ],
    [
      "a body that ends early",
      "POST /dlrm.serving.v1.PredictionService/Predict HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}",
    ],
  ])("a connection of %s ends without harm", async (_title, bytes) => {
    const socket = net.connect(server.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.resume();
    socket.end(Buffer.from(bytes, "latin1"));
    await once(socket, "close");
    await expectGoodAnswer();
    expect(server.phase).toBe("serving");
  });
});
