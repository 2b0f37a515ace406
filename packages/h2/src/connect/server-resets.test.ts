import { once } from "node:events";
import net from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import { StringValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, createClient } from "@connectrpc/connect";
import { afterEach, expect, test, vi } from "vitest";
import { Echo, type EchoClient } from "../../test/echo-service.ts";
import { data, END_STREAM, frame, framesIn, headers, reset, settings, uint32 } from "../../test/memory-peer.ts";
import { encodeHeaderBlock } from "../hpack-encoder.ts";
import { ErrorCode } from "../protocol.ts";
import { createTransport } from "./index.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const head = encodeHeaderBlock([
  [":status", "200"],
  ["content-type", "application/grpc+proto"],
]);
const trailers = encodeHeaderBlock([["grpc-status", "0"]]);

/** What a server answers to the request on a stream, on one connection after the other; undefined is silence. */
type Answer = (streamId: number) => Buffer[] | undefined;

const serve: Answer = (streamId) => {
  const message = toBinary(StringValueSchema, create(StringValueSchema, { value: "served" }));
  const body = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);
  return [headers(streamId, 0, head), data(streamId, 0, body), headers(streamId, END_STREAM, trailers)];
};
const goaway = (lastStreamId: number): Buffer => frame(7, 0, 0, uint32(lastStreamId, ErrorCode.NO_ERROR));
const refuse: Answer = (streamId) => [reset(streamId, ErrorCode.REFUSED_STREAM)];

interface FakeServer {
  readonly client: EchoClient;
  /** The bodies of the requests, by connection. */
  readonly bodies: string[][];
  /** Resolves when the client has closed the connection of that number. */
  readonly closed: Promise<void>[];
}

/** A server that speaks frames and nothing more: its nth connection answers as the nth of the answers says. */
async function fake(...answers: readonly Answer[]): Promise<FakeServer> {
  const bodies: string[][] = [];
  const closed: Promise<void>[] = [];
  const listener = net.createServer((socket) => {
    cleanups.push(() => socket.destroy());
    const ended = Promise.withResolvers<void>();
    closed.push(ended.promise);
    const answer = answers[closed.length - 1] ?? (() => undefined);
    const ofConnection: string[] = [];
    bodies.push(ofConnection);
    let received: Buffer = Buffer.alloc(0);
    let seen = 0;
    const pieces = new Map<number, Buffer[]>();
    socket.write(settings());
    socket.on("error", () => {});
    socket.on("close", () => ended.resolve());
    socket.on("end", () => socket.end());
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const frames = framesIn(received);
      for (const { type, flags, streamId, payload } of frames.slice(seen)) {
        if (type === 0) pieces.set(streamId, [...(pieces.get(streamId) ?? []), payload]);
        if (type > 1 || (flags & END_STREAM) === 0) continue;
        ofConnection.push(Buffer.concat(pieces.get(streamId) ?? []).toString("latin1"));
        socket.write(Buffer.concat(answer(streamId) ?? []));
      }
      seen = frames.length;
    });
  });
  listener.listen(0, "127.0.0.1");
  cleanups.push(() => listener.close());
  await once(listener, "listening");
  const { port } = listener.address() as net.AddressInfo;
  const transport = createTransport({ protocol: "grpc", baseUrl: `http://127.0.0.1:${port}` });
  cleanups.push(() => transport.close());
  return { client: createClient(Echo, transport) as unknown as EchoClient, bodies, closed };
}

const asked = "\0\0\0\0\x07\n\x05hello";

test.each<[string, Answer]>([
  ["resets its stream with REFUSED_STREAM", refuse],
  ["says by GOAWAY that it has not looked at it", () => [goaway(0)]],
])("a unary call is sent again, over another connection, when the server %s", async (_, answer) => {
  const { client, bodies, closed } = await fake(answer, serve);
  expect((await client.unary({ value: "hello" })).value).toBe("served");
  expect(bodies).toEqual([[asked], [asked]]);
  // The first connection is of no use any more.
  await closed[0];
});

test("it is sent twice at most", async () => {
  const { client, bodies } = await fake(refuse, refuse, serve);
  await expect(client.unary({ value: "hello" })).rejects.toMatchObject({ code: Code.Unavailable });
  expect(bodies).toEqual([[asked], [asked]]);
});

test.each<[string, Answer, Code]>([
  ["gave up", (streamId) => [reset(streamId, ErrorCode.INTERNAL_ERROR)], Code.Internal],
  ["had begun to answer", (streamId) => [headers(streamId, 0, head), ...(refuse(streamId) ?? [])], Code.Unavailable],
])("a unary call that the server %s is not sent again", async (_, answer, code) => {
  const { client, bodies } = await fake(answer, serve);
  await expect(client.unary({ value: "hello" })).rejects.toMatchObject({ code });
  expect(bodies).toEqual([[asked]]);
});

test("a unary call of a connection that is lost is not sent again: the server may have looked at it", async () => {
  // DATA on stream 0, for which the client ends the connection.
  const { client, bodies } = await fake(() => [data(0, 0)], serve);
  await expect(client.unary({ value: "hello" })).rejects.toMatchObject({ code: Code.Unavailable });
  expect(bodies).toEqual([[asked]]);
});

test("a streaming call is not sent again: its messages are gone", async () => {
  const { client, bodies } = await fake(refuse, serve);
  const answers = client.server({ value: "hello" })[Symbol.asyncIterator]();
  await expect(answers.next()).rejects.toMatchObject({ code: Code.Unavailable });
  expect(bodies).toEqual([[asked]]);
});

test("calls that one GOAWAY refuses all go to one other connection", async () => {
  const calls = 20;
  const seen: number[] = [];
  const { client, bodies } = await fake((streamId) => {
    seen.push(streamId);
    // The first is answered before the connection ends, the others never were looked at.
    return seen.length < calls ? undefined : [goaway(1), ...(serve(1) ?? [])];
  }, serve);
  const answers = await Promise.all(Array.from({ length: calls }, () => client.unary({ value: "hello" })));
  expect(answers.map((each) => each.value)).toEqual(Array.from({ length: calls }, () => "served"));
  expect(bodies.map((each) => each.length)).toEqual([calls, calls - 1]);
});

test("a call that is given up is not sent again", async () => {
  const abort = new AbortController();
  const { client, bodies } = await fake((streamId) => {
    abort.abort();
    return refuse(streamId);
  }, serve);
  await expect(client.unary({ value: "hello" }, { signal: abort.signal })).rejects.toMatchObject({
    code: Code.Canceled,
  });
  expect(bodies).toEqual([[asked]]);
});

test.each(["unary", "server"] as const)(
  "%s: a call that the server gives up at its deadline has passed its deadline, though the client's own timer is late",
  async (kind) => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    cleanups.push(() => vi.useRealTimers());
    let sentMs = 0;
    const { client } = await fake((streamId) => {
      while (performance.now() - sentMs < 2);
      return [reset(streamId, ErrorCode.CANCEL)];
    });
    sentMs = performance.now();
    const answer =
      kind === "unary"
        ? client.unary({ value: "hello" }, { timeoutMs: 1 })
        : client.server({ value: "hello" }, { timeoutMs: 1 })[Symbol.asyncIterator]().next();
    await expect(answer).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  },
);

test("a call that the server gives up before its deadline was cancelled", async () => {
  const { client } = await fake((streamId) => [reset(streamId, ErrorCode.CANCEL)]);
  await expect(client.unary({ value: "hello" }, { timeoutMs: 3_600_000 })).rejects.toMatchObject({
    code: Code.Canceled,
  });
});
