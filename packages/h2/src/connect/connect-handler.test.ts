import { once } from "node:events";
import http2 from "node:http2";
import type { StringValue } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, createConnectRouter } from "@connectrpc/connect";
import {
  connectNodeAdapter,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { afterEach, describe, expect, test } from "vitest";
import { Echo, type EchoClient } from "../../test/echo-service.ts";
import { createServer, type Http2Server } from "../server.ts";
import { createConnectHandler } from "./index.ts";

const cancelled = Promise.withResolvers<void>();

const router = createConnectRouter();
router.service(Echo, {
  async unary(
    request: StringValue,
    context: { signal: AbortSignal; responseTrailer: Headers; responseHeader: Headers },
  ) {
    if (request.value === "hang" || request.value === "wait") {
      await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      if (request.value === "hang") cancelled.resolve();
    }
    if (request.value === "fail") throw new ConnectError("as asked", Code.FailedPrecondition);
    context.responseHeader.set("x-head", "1");
    context.responseTrailer.set("x-tail", "2");
    return { value: request.value };
  },
  async client(requests: AsyncIterable<StringValue>) {
    let value = "";
    for await (const request of requests) value += request.value;
    return { value };
  },
  async *server(request: StringValue) {
    for (const value of request.value.split(",")) yield { value };
  },
  async *bidi(requests: AsyncIterable<StringValue>) {
    for await (const request of requests) yield { value: request.value.toUpperCase() };
  },
} as never);

const servers: Http2Server[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function start(): Promise<string> {
  const server = createServer({
    onRequest: createConnectHandler({ handlers: router.handlers }),
    onHttp1Request: connectNodeAdapter({ routes: (each) => each.handlers.push(...router.handlers) }),
  });
  servers.push(server);
  return `http://127.0.0.1:${await server.listen()}`;
}

async function* values(...given: string[]) {
  for (const value of given) yield { value };
}

async function collect(stream: AsyncIterable<StringValue>): Promise<string[]> {
  const all: string[] = [];
  for await (const each of stream) all.push(each.value);
  return all;
}

const transports = {
  gRPC: (baseUrl: string) => createGrpcTransport({ baseUrl }),
  "gRPC-web": (baseUrl: string) => createGrpcWebTransport({ baseUrl, httpVersion: "2" }),
  Connect: (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "2" }),
  "Connect over HTTP/1.1": (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "1.1" }),
};

describe.each(Object.entries(transports))("%s", (name, transport) => {
  const connectTo = async () => createClient(Echo, transport(await start())) as unknown as EchoClient;

  test("unary, with headers and trailers", async () => {
    const client = await connectTo();
    const seen: string[] = [];
    const options = {
      onHeader: (header: Headers) => seen.push(`${header.get("x-head")}`),
      onTrailer: (trailer: Headers) => seen.push(`${trailer.get("x-tail")}`),
    };
    expect((await client.unary({ value: "hello" }, options)).value).toBe("hello");
    expect(seen).toEqual(["1", "2"]);
  });

  test("a message of three megabytes", async () => {
    const client = await connectTo();
    const value = "x".repeat(3_000_000);
    expect((await client.unary({ value })).value).toBe(value);
  });

  test("an error with its code and message", async () => {
    const client = await connectTo();
    await expect(client.unary({ value: "fail" })).rejects.toMatchObject({
      code: Code.FailedPrecondition,
      rawMessage: "as asked",
    });
  });

  test("client streaming", async () => {
    expect((await (await connectTo()).client(values("a", "b", "c"))).value).toBe("abc");
  });

  test("server streaming", async () => {
    expect(await collect((await connectTo()).server({ value: "a,b,c" }))).toEqual(["a", "b", "c"]);
  });

  // HTTP/1.1 has no bidirectional streams.
  if (name.endsWith("1.1")) return;

  test("bidirectional streaming", async () => {
    expect(await collect((await connectTo()).bidi(values("a", "b")))).toEqual(["A", "B"]);
  });
});

test("a call that the client gives up is cancelled in the handler", async () => {
  const client = createClient(Echo, createGrpcTransport({ baseUrl: await start() })) as unknown as EchoClient;
  const abort = new AbortController();
  const call = client.unary({ value: "hang" }, { signal: abort.signal });
  // The server has the call once it has answered a later one on the same connection.
  await client.unary({ value: "later" });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: Code.Canceled });
  await cancelled.promise;
});

test("a call whose stream a client of Node's closes, with NO_ERROR, is cancelled in the handler", async () => {
  const called = Promise.withResolvers<AbortSignal>();
  const server = createServer({
    onRequest: createConnectHandler({
      routes: (each) =>
        each.service(Echo, {
          unary(_: StringValue, { signal }: { signal: AbortSignal }) {
            called.resolve(signal);
            return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
          },
        } as never),
    }),
  });
  servers.push(server);
  const session = http2.connect(`http://127.0.0.1:${await server.listen()}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/test.Echo/Unary",
    "content-type": "application/proto",
  });
  // A message with nothing set has no octets.
  stream.end();
  const signal = await called.promise;
  const aborted = once(signal, "abort");
  stream.close();
  await aborted;
  expect(signal.reason).toMatchObject({ code: Code.Canceled });
  session.destroy();
});

test("an unknown path is answered 404", async () => {
  const baseUrl = await start();
  const client = createClient(
    Echo,
    createConnectTransport({ baseUrl: `${baseUrl}/elsewhere`, httpVersion: "2" }),
  ) as unknown as EchoClient;
  await expect(client.unary({ value: "x" })).rejects.toMatchObject({ code: Code.Unimplemented });
});

test("an option that is undefined has its default", async () => {
  const limits: object = { readMaxBytes: undefined };
  const onRequest = createConnectHandler({
    routes: (each) => each.service(Echo, { unary: (request: StringValue) => request } as never),
    ...limits,
  });
  const server = createServer({ onRequest });
  servers.push(server);
  const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${await server.listen()}` });
  const client = createClient(Echo, transport) as unknown as EchoClient;
  const call = client.unary({ value: "x".repeat(4 * 1024 * 1024) });
  await expect(call).rejects.toMatchObject({ code: Code.ResourceExhausted });
});

describe("a request that has not come whole by its deadline is answered DEADLINE_EXCEEDED:", () => {
  const grpc = { "grpc-timeout": "20m" };
  const connect = { "connect-timeout-ms": "20" };
  const grpcStatus = '"grpc-status":"4"';
  const calls: [type: string, method: string, timeout: http2.OutgoingHttpHeaders, status: number, answer: string][] = [
    ["application/grpc", "Unary", grpc, 200, grpcStatus],
    ["application/grpc", "Client", grpc, 200, grpcStatus],
    ["application/grpc", "Server", grpc, 200, grpcStatus],
    ["application/grpc", "Bidi", grpc, 200, grpcStatus],
    ["application/grpc-web+proto", "Unary", grpc, 200, "grpc-status: 4\r\n"],
    ["application/proto", "Unary", connect, 504, '"code":"deadline_exceeded"'],
    ["application/connect+json", "Client", connect, 200, '"code":"deadline_exceeded"'],
  ];

  /**
   * Fails once a whole call with a later deadline is answered: the timers of a process go off in the order of their times, however
   * slow it is.
   */
  async function afterLaterDeadline(session: http2.ClientHttp2Session): Promise<never> {
    const stream = session.request({
      ":method": "POST",
      ":path": "/test.Echo/Unary",
      "content-type": "application/proto",
      "connect-timeout-ms": "1000",
    });
    stream.end(Buffer.from([0x0a, 4, ...Buffer.from("wait")]));
    stream.resume();
    await once(stream, "close");
    throw new Error("a call with a later deadline was answered before this one");
  }

  /** Status, and what follows, of a call that sends pieces of its request for as long as the server takes them. */
  async function answerTo(headers: http2.OutgoingHttpHeaders, piece: Buffer, goesOn: boolean) {
    const session = http2.connect(await start());
    const stream = session.request({ ":method": "POST", te: "trailers", ...headers });
    const send = (): void => {
      stream.write(piece, () => {
        if (goesOn && !stream.closed && !stream.destroyed) setImmediate(send);
      });
    };
    send();
    let status: number | undefined;
    let answer = "";
    stream.on("response", (head) => (status = head[":status"]));
    stream.on("data", (data: Buffer) => (answer += data.toString("latin1")));
    stream.on("trailers", (trailers) => (answer += JSON.stringify(trailers)));
    try {
      await Promise.race([once(stream, "close"), afterLaterDeadline(session)]);
    } finally {
      // The call that has the later deadline ends with it, too.
      session.destroy();
    }
    return { status, answer };
  }

  test.each(calls)("%s, %s", async (type, method, timeout, status, answer) => {
    const headers = { ":path": `/test.Echo/${method}`, "content-type": type, ...timeout };
    const got = await answerTo(headers, Buffer.from([0, 0, 0]), false);
    expect(got).toEqual({ status, answer: expect.stringContaining(answer) as string });
  });

  test("though messages go on to come", async () => {
    const headers = { ":path": "/test.Echo/Client", "content-type": "application/grpc", ...grpc };
    const message = Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 0x78]);
    const got = await answerTo(headers, Buffer.concat(Array.from({ length: 1000 }, () => message)), true);
    expect(got).toEqual({ status: 200, answer: expect.stringContaining(grpcStatus) as string });
  });
});

test.each([
  ["application/grpc", "grpc-timeout", "99999999H"],
  ["application/connect+proto", "connect-timeout-ms", "9999999999"],
])(
  "%s: a deadline more than 24 days away has not passed, though a timer cannot wait for it",
  async (type, name, value) => {
    const timeouts: (number | undefined)[] = [];
    const onRequest = createConnectHandler({
      routes: (each) =>
        each.service(Echo, {
          async client(requests: AsyncIterable<StringValue>, context: { timeoutMs(): number | undefined }) {
            timeouts.push(context.timeoutMs());
            for await (const _ of requests);
            return {};
          },
        } as never),
    });
    const server = createServer({ onRequest });
    servers.push(server);
    const session = http2.connect(`http://127.0.0.1:${await server.listen()}`);
    const stream = session.request({
      ":method": "POST",
      ":path": "/test.Echo/Client",
      "content-type": type,
      [name]: value,
    });
    stream.end();
    stream.resume();
    await once(stream, "close");
    session.destroy();
    expect(timeouts).toHaveLength(1);
    expect(timeouts[0]).toBeGreaterThan(2 ** 30);
    expect(timeouts[0]).toBeLessThan(2 ** 31);
  },
);
