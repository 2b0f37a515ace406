import { once } from "node:events";
import net from "node:net";
import { create } from "@bufbuild/protobuf";
import { type StringValue, StringValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";
import { Echo, type EchoClient } from "../../test/echo-service.ts";
import { createServer, type Http2Server, type Http2ServerOptions } from "../server.ts";
import { compressionBrotli, compressionGzip, createConnectHandler, createTransport } from "./index.ts";
import type { Http2TransportOptions } from "./index.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const encodings: (string | null)[] = [];
const onRequest = createConnectHandler({
  routes: (router) =>
    router.service(Echo, {
      unary(request: StringValue, context: { requestHeader: Headers; responseTrailer: Headers; signal: AbortSignal }) {
        encodings.push(context.requestHeader.get("grpc-encoding"));
        context.responseTrailer.set("x-tail", "t");
        if (request.value === "fail") throw new ConnectError("as asked", Code.FailedPrecondition);
        if (request.value !== "hang") return { value: request.value };
        return new Promise((_, reject) =>
          context.signal.addEventListener("abort", () => reject(context.signal.reason)),
        );
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
    } as never),
});

async function serve(
  options: Partial<Http2ServerOptions> = {},
  port = 0,
): Promise<{ server: Http2Server; port: number }> {
  const server = createServer({ onRequest, ...options });
  cleanups.push(() => server.close());
  return { server, port: await server.listen({ port }) };
}

function clientOf(
  port: number,
  protocol: Http2TransportOptions["protocol"] = "grpc",
  options: Partial<Http2TransportOptions> = {},
): EchoClient {
  const transport = createTransport({ protocol, baseUrl: `http://127.0.0.1:${port}`, ...options });
  cleanups.push(() => transport.close());
  return createClient(Echo, transport) as unknown as EchoClient;
}

async function* values(...given: string[]) {
  for (const value of given) yield { value };
}

async function collect(stream: AsyncIterable<StringValue>): Promise<string[]> {
  const all: string[] = [];
  for await (const each of stream) all.push(each.value);
  return all;
}

describe.each(["grpc", "grpc-web", "connect"] as const)("a client over this package, %s", (protocol) => {
  test("makes calls of every kind on one connection", async () => {
    const { server, port } = await serve();
    const client = clientOf(port, protocol);
    const trailers: (string | null)[] = [];
    const big = "x".repeat(2_000_000);
    expect(
      (await client.unary({ value: big }, { onTrailer: (each: Headers) => trailers.push(each.get("x-tail")) })).value,
    ).toBe(big);
    expect(trailers).toEqual(["t"]);
    expect((await client.client(values("a", "b"))).value).toBe("ab");
    expect(await collect(client.server({ value: "a,b,c" }))).toEqual(["a", "b", "c"]);
    expect(await collect(client.bidi(values("a", "b")))).toEqual(["A", "B"]);
    await expect(client.unary({ value: "fail" })).rejects.toMatchObject({ code: Code.FailedPrecondition });
    expect(server.openConnections).toBe(1);
  });

  test("is told when its deadline has passed, and when it gives up", async () => {
    const { port } = await serve();
    const client = clientOf(port, protocol);
    await expect(client.unary({ value: "hang" }, { timeoutMs: 20 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
    const abort = new AbortController();
    const call = client.unary({ value: "hang" }, { signal: abort.signal });
    await client.unary({ value: "later" });
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: Code.Canceled });
  });
});

test("a request compressed with gzip is read by a handler that was told nothing of compression", async () => {
  const { port } = await serve();
  encodings.length = 0;
  const client = clientOf(port, "grpc", { sendCompression: compressionGzip, compressMinBytes: 0 });
  expect((await client.unary({ value: "small" })).value).toBe("small");
  expect(encodings).toEqual(["gzip"]);
});

test.each(["grpc", "grpc-web", "connect"] as const)(
  "%s: a small compressed message that would become a large one is refused without being told of a limit",
  async (protocol) => {
    const { port } = await serve();
    const client = clientOf(port, protocol, { sendCompression: compressionGzip });
    // The message has 5 bytes beside its text.
    const value = "x".repeat(4 * 1024 * 1024);
    expect((await client.unary({ value: value.slice(5) })).value.length).toBe(4 * 1024 * 1024 - 5);
    await expect(client.unary({ value: value.slice(4) })).rejects.toMatchObject({ code: Code.ResourceExhausted });
  },
);

test.each([compressionGzip, compressionBrotli])("$name is undone, within the limit", async (compression) => {
  const bytes = Buffer.alloc(1000, "ab");
  const compressed = await compression.compress(bytes);
  expect(compressed.length).toBeLessThan(100);
  expect(Buffer.from(await compression.decompress(compressed, 1000)).equals(bytes)).toBe(true);
  await expect(compression.decompress(compressed, 999)).rejects.toMatchObject({
    code: Code.ResourceExhausted,
    rawMessage: "a message of more than readMaxBytes (999)",
  });
  await expect(compression.decompress(Buffer.from("none"), 999)).rejects.toMatchObject({ code: Code.InvalidArgument });
  expect((await compression.decompress(new Uint8Array(), 1)).length).toBe(0);
});

test("calls wait for room for a stream, and go on when there is some", async () => {
  const { server, port } = await serve({ limits: { maxConcurrentStreams: 2 } });
  const client = clientOf(port);
  // Until the server has said how many it allows, the client cannot know.
  await client.unary({ value: "first" });
  const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => client.unary({ value: `${index}` })));
  expect(answers.map((each) => each.value)).toEqual(Array.from({ length: 20 }, (_, index) => `${index}`));
  expect(server.openConnections).toBe(1);
});

test("a server that went away makes calls fail as unavailable, and the next one connects again", async () => {
  const { server, port } = await serve();
  const client = clientOf(port);
  await client.unary({ value: "first" });
  const lost = client.unary({ value: "hang" }).catch((error: unknown) => error);
  await client.unary({ value: "later" });
  await server.close();
  expect(await lost).toMatchObject({ code: Code.Unavailable });
  await expect(client.unary({ value: "nobody" })).rejects.toMatchObject({ code: Code.Unavailable });
  await serve({}, port);
  expect((await client.unary({ value: "again" })).value).toBe("again");
});

test("a server that drains finishes what is open, while new calls connect anew", async () => {
  const first = await serve();
  const client = clientOf(first.port);
  await client.unary({ value: "first" });
  const drained = first.server.drain();
  await drained;
  await serve({}, first.port);
  expect((await client.unary({ value: "second" })).value).toBe("second");
});

test("closing the transport fails what is open and what comes", async () => {
  const { port } = await serve();
  const transport = createTransport({ protocol: "grpc", baseUrl: `http://127.0.0.1:${port}` });
  const client = createClient(Echo, transport) as unknown as EchoClient;
  await client.unary({ value: "x" });
  const call = client.unary({ value: "hang" }).catch((error: unknown) => error);
  await client.unary({ value: "later" });
  transport.close();
  expect(await call).toMatchObject({ code: Code.Unavailable });
  await expect(client.unary({ value: "x" })).rejects.toThrow("the channel is closed");
});

test("a call that is given up while it connects is over at once", async () => {
  // Accepts, and never says that it speaks TLS.
  const listener = net.createServer((socket) => cleanups.push(() => socket.destroy())).listen(0, "127.0.0.1");
  cleanups.push(() => listener.close());
  await once(listener, "listening");
  const transport = createTransport({
    protocol: "grpc",
    baseUrl: `https://127.0.0.1:${(listener.address() as net.AddressInfo).port}`,
  });
  const client = createClient(Echo, transport) as unknown as EchoClient;
  const abort = new AbortController();
  const call = client.unary(create(StringValueSchema), { signal: abort.signal });
  await once(listener, "connection");
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: Code.Canceled });
});

test.each(["ftp://a", "unix:/x"])("%s is no address of a server", (baseUrl) => {
  expect(() => createTransport({ protocol: "grpc", baseUrl })).toThrow(
    `baseUrl: expected http or https, got "${baseUrl}"`,
  );
});
