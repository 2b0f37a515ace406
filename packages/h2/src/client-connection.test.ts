import { Duplex, duplexPair, Transform } from "node:stream";
import { expect, test } from "vitest";
import {
  data,
  END_STREAM,
  frame,
  headers,
  MemoryPeer,
  request,
  reset,
  settings,
  SETTINGS_ACK,
  uint32,
  windowUpdate,
} from "../test/memory-peer.ts";
import { Http2ClientConnection, type ClientConnectionEvents } from "./client-connection.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import type { ConnectionLimits } from "./limits.ts";
import { ErrorCode, Setting } from "./protocol.ts";
import { Http2ServerConnection } from "./server-connection.ts";
import type { StreamHandler } from "./stream.ts";

function connect(
  events: ClientConnectionEvents = {},
  limits: Partial<ConnectionLimits> = {},
): MemoryPeer<Http2ClientConnection> {
  const peer = new MemoryPeer((socket) => new Http2ClientConnection(socket, events, { limits, nowMs: () => 0 }));
  peer.send(settings(), SETTINGS_ACK);
  return peer;
}

const ok = encodeHeaderBlock([[":status", "200"]]);

/** Opens a stream and keeps a record of what its handler is told. */
function open(peer: MemoryPeer<Http2ClientConnection>, body?: Buffer, endStream = true) {
  const told: string[] = [];
  const handler: StreamHandler = {
    body: "whole",
    onHeaders: (_, block) => told.push(`headers ${block.get(":status")}`),
    onBody: (_, whole, trailers) => told.push(`body ${whole.toString()} ${trailers?.get("grpc-status") ?? ""}`.trim()),
    onReset: (_, code) => told.push(`reset ${code}`),
    onWritable: () => told.push("writable"),
  };
  const stream = peer.connection.request(request, body, handler, { endStream });
  if (stream === undefined) throw new Error("no room");
  return { stream, told };
}

test.each<[string, Buffer[], number]>([
  ["DATA before HEADERS", [data(1, END_STREAM, Buffer.from("x"))], ErrorCode.PROTOCOL_ERROR],
  ["no :status", [headers(1, END_STREAM, encodeHeaderBlock([["x", "y"]]))], ErrorCode.PROTOCOL_ERROR],
  [":status 101", [headers(1, 0, encodeHeaderBlock([[":status", "101"]]))], ErrorCode.PROTOCOL_ERROR],
  [
    "1xx that ends the stream",
    [headers(1, END_STREAM, encodeHeaderBlock([[":status", "103"]]))],
    ErrorCode.PROTOCOL_ERROR,
  ],
  [
    "a request's pseudo-header field",
    [
      headers(
        1,
        0,
        encodeHeaderBlock([
          [":status", "200"],
          [":path", "/"],
        ]),
      ),
    ],
    ErrorCode.PROTOCOL_ERROR,
  ],
  ["trailers that do not end the stream", [headers(1, 0, ok), headers(1, 0, ok)], ErrorCode.PROTOCOL_ERROR],
  ["a pseudo-header field in trailers", [headers(1, 0, ok), headers(1, END_STREAM, ok)], ErrorCode.PROTOCOL_ERROR],
  [
    "a body shorter than it declared",
    [
      headers(
        1,
        0,
        encodeHeaderBlock([
          [":status", "200"],
          ["content-length", "2"],
        ]),
      ),
      data(1, END_STREAM, Buffer.from("x")),
    ],
    ErrorCode.PROTOCOL_ERROR,
  ],
])("a response with %s costs its stream only", (_, frames, errorCode) => {
  const peer = connect();
  const { told } = open(peer);
  peer.send(...frames);
  expect(peer.resets(1)).toEqual([errorCode]);
  expect(told.at(-1)).toBe(`reset ${errorCode}`);
  expect(told.some((each) => each.startsWith("body"))).toBe(false);
  expect(peer.connection.hasRoom).toBe(true);
});

test.each<[string, number, Buffer]>([
  ["push switched on", ErrorCode.PROTOCOL_ERROR, settings([Setting.ENABLE_PUSH, 1])],
  ["PUSH_PROMISE", ErrorCode.PROTOCOL_ERROR, frame(5, 4, 1, uint32(2))],
  ["HEADERS on a stream that we did not open", ErrorCode.PROTOCOL_ERROR, headers(3, 0, ok)],
  ["HEADERS on a stream of the server's", ErrorCode.PROTOCOL_ERROR, headers(2, 0, ok)],
])("%s ends the connection", (_, errorCode, bytes) => {
  const peer = connect();
  open(peer);
  peer.send(bytes);
  // No stream of the server's has been looked at.
  expect(peer.goaway).toMatchObject({ errorCode, lastStreamId: 0 });
  expect(peer.connection.isFinished).toBe(true);
});

test("informational responses are passed over, but not without end", () => {
  const peer = connect({}, { controlFrameBurst: 50 });
  const { told } = open(peer);
  const early = headers(1, 0, encodeHeaderBlock([[":status", "103"]]));
  peer.send(early, early, headers(1, 0, ok), data(1, END_STREAM, Buffer.from("x")));
  expect(told).toEqual(["headers 200", "body x"]);
  open(peer);
  for (let index = 0; index < 50; index++) peer.send(headers(3, 0, encodeHeaderBlock([[":status", "103"]])));
  expect(peer.goaway?.errorCode).toBe(ErrorCode.ENHANCE_YOUR_CALM);
});

test("a server that has answered may say that it needs no more of the request", () => {
  const peer = connect();
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 3]));
  const { stream, told } = open(peer, undefined, false);
  expect(stream.sendData(Buffer.from("request"))).toBe(false);
  peer.send(headers(1, 0, ok), data(1, END_STREAM, Buffer.from("early")), reset(1, ErrorCode.NO_ERROR));
  // Whoever waits to send goes on, and what it sends is dropped.
  expect(told).toEqual(["headers 200", "body early", "writable"]);
  expect(stream.sendData(Buffer.from("more"))).toBe(true);
  expect(peer.dataOf(1).toString()).toBe("req");
  expect(peer.connection.openStreams).toBe(0);
});

test("until the server has said how many streams it allows, a hundred are opened", () => {
  let rooms = 0;
  const peer = new MemoryPeer((socket) => new Http2ClientConnection(socket, { onRoom: () => (rooms += 1) }));
  for (let index = 0; index < 100; index++) open(peer);
  expect(peer.connection.request(request, undefined, { body: "whole" })).toBeUndefined();
  peer.send(settings([Setting.MAX_CONCURRENT_STREAMS, 101]));
  expect(rooms).toBe(1);
  open(peer);
  expect(peer.connection.hasRoom).toBe(false);
  peer.send(settings([Setting.MAX_CONCURRENT_STREAMS, 0]));
  expect(peer.connection.hasRoom).toBe(false);
});

test("requests that wait for window keep further ones from opening streams", () => {
  let rooms = 0;
  const peer = connect({ onRoom: () => (rooms += 1) }, { maxQueuedBytes: 100_000 });
  open(peer, Buffer.alloc(200_000));
  expect(peer.connection.hasRoom).toBe(false);
  expect(peer.connection.request(request, undefined, { body: "whole" })).toBeUndefined();
  peer.send(windowUpdate(0, 50_000), windowUpdate(1, 50_000));
  expect([rooms, peer.connection.hasRoom]).toEqual([1, true]);
});

test("GOAWAY: what the server has seen goes on, the rest is refused, also by a second one", () => {
  const goaways: string[] = [];
  const peer = connect({ onGoaway: (code, debug) => goaways.push(`${code} ${debug}`) });
  const calls = [open(peer), open(peer), open(peer)];
  peer.send(frame(7, 0, 0, uint32(3, ErrorCode.NO_ERROR)));
  expect(calls.map((each) => each.told)).toEqual([[], [], ["reset 7"]]);
  expect(peer.connection.isFinished).toBe(true);
  peer.send(frame(7, 0, 0, Buffer.concat([uint32(1, ErrorCode.ENHANCE_YOUR_CALM), Buffer.from("slow down")])));
  expect(calls.map((each) => each.told)).toEqual([[], ["reset 7"], ["reset 7"]]);
  expect(goaways).toEqual(["0 ", "11 slow down"]);
  expect(peer.connection.isClosed).toBe(false);
  peer.send(headers(1, END_STREAM, ok));
  expect(calls[0]?.told).toEqual(["headers 200", "body"]);
  expect(peer.connection.isClosed).toBe(true);
});

test("a server that resets many streams is a server that is busy", () => {
  const peer = connect({}, { resetBurst: 1 });
  for (let index = 0; index < 20; index++) {
    const { told } = open(peer);
    peer.send(reset(2 * index + 1, ErrorCode.REFUSED_STREAM));
    expect(told).toEqual(["reset 7"]);
  }
  expect(peer.connection.hasRoom).toBe(true);
});

const trailers = encodeHeaderBlock([["grpc-status", "0"]]);

test("answers that come after their calls were given up cost the server nothing, as long as there are such calls", () => {
  const peer = connect({}, { controlFrameBurst: 10 });
  const answer = (streamId: number): Buffer[] => [
    headers(streamId, 0, ok),
    data(streamId, 0, Buffer.from("late")),
    headers(streamId, END_STREAM, trailers),
  ];
  for (let index = 0; index < 1000; index++) {
    open(peer).stream.reset();
    // It may have given the call up too.
    peer.send(...answer(2 * index + 1), reset(2 * index + 1, ErrorCode.CANCEL));
  }
  expect(peer.goaway).toBeUndefined();
  // Its SETTINGS and its acknowledgement of ours were two of the ten.
  for (let index = 0; index < 8; index++) peer.send(headers(1999, 0, ok));
  expect(peer.goaway).toBeUndefined();
  peer.send(headers(1999, 0, ok));
  expect(peer.goaway).toMatchObject({
    errorCode: ErrorCode.ENHANCE_YOUR_CALM,
    message: expect.stringContaining("HEADERS frames on closed streams"),
  });
});

test.each([
  ["whose request had ended by then", true],
  ["whose request had not ended", false],
])("a server may say once for each call %s that it needs no more of it", (_, endStream) => {
  const peer = connect({}, { controlFrameBurst: 10 });
  for (let index = 0; index < 1000; index++) {
    open(peer, undefined, endStream);
    peer.send(headers(2 * index + 1, END_STREAM, ok), reset(2 * index + 1, ErrorCode.NO_ERROR));
  }
  expect([peer.goaway, peer.connection.openStreams]).toEqual([undefined, 0]);
  for (let index = 0; index < 8; index++) peer.send(reset(1999, ErrorCode.NO_ERROR));
  expect(peer.goaway).toBeUndefined();
  peer.send(reset(1999, ErrorCode.NO_ERROR));
  expect(peer.goaway).toMatchObject({
    errorCode: ErrorCode.ENHANCE_YOUR_CALM,
    message: expect.stringContaining("RST_STREAM frames"),
  });
});

test("any Duplex carries a connection, also one that keeps the very buffers that it is given", async () => {
  // Written in one turn, handed on in a later one: whoever reuses a buffer by then has spoiled it.
  const [near, far] = duplexPair();
  const server = new Http2ServerConnection(near, {
    onRequest: () => ({ body: "whole", onBody: (stream, body) => stream.respond(ok, body) }),
  });
  const late = new Transform({ transform: (chunk, _, done) => void setImmediate(done, null, chunk) });
  const client = new Http2ClientConnection(Duplex.from({ writable: far, readable: far.pipe(late) }));
  const bodies = Array.from({ length: 50 }, (_, index) => Buffer.alloc(index * 700, index));
  const answers = await Promise.all(
    bodies.map(
      (body) =>
        new Promise<Buffer>((resolve, reject) => {
          client.request(request, body, {
            body: "whole",
            onBody: (_, whole) => resolve(Buffer.from(whole)),
            onReset: (_, code) => reject(new Error(`reset ${code}`)),
          });
        }),
    ),
  );
  for (const [index, answer] of answers.entries()) expect(answer.equals(bodies[index] as Buffer)).toBe(true);
  expect(server.openStreams).toBe(0);
});
