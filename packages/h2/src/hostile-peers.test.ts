import net from "node:net";
import { expect, test } from "vitest";
import {
  data,
  END_HEADERS,
  END_STREAM,
  frame,
  headers,
  MemoryPeer,
  PADDED,
  PREFACE,
  request,
  requestFields,
  reset,
  settings,
  SETTINGS_ACK,
  uint32,
  windowUpdate,
} from "../test/memory-peer.ts";
import { ConnectionKeeper } from "./connection-keeper.ts";
import { encodeHeaderBlock, HpackEncoder } from "./hpack-encoder.ts";
import { Http2Error } from "./http2-error.ts";
import type { ConnectionLimits } from "./limits.ts";
import { ErrorCode, Setting } from "./protocol.ts";
import { Http2ServerConnection, type ServerConnectionEvents } from "./server-connection.ts";
import type { Http2Stream, StreamHandler } from "./stream.ts";

const ok = encodeHeaderBlock([[":status", "200"]]);
const silent: StreamHandler = { body: "whole" };

/** A server whose clock stands still: what a bucket of tokens holds is all that the peer gets. */
function serve(
  onRequest: ServerConnectionEvents["onRequest"] = () => silent,
  limits: Partial<ConnectionLimits> = {},
  events: Partial<ServerConnectionEvents> = {},
): MemoryPeer<Http2ServerConnection> {
  const peer = new MemoryPeer(
    (socket) => new Http2ServerConnection(socket, { ...events, onRequest }, { limits, nowMs: () => 0 }),
  );
  peer.send(PREFACE, settings(), SETTINGS_ACK);
  return peer;
}

/** Sends `step(0)`, `step(1)`, … until the connection ends; how many it took. */
function until(peer: MemoryPeer<Http2ServerConnection>, most: number, step: (index: number) => Buffer[]): number {
  for (let index = 0; index < most; index++) {
    peer.connection.read(Buffer.concat(step(index)));
    if (peer.connection.isClosed) return index + 1;
  }
  return Infinity;
}

const calm = ErrorCode.ENHANCE_YOUR_CALM;
const id = (index: number): number => 2 * index + 1;

// ---- what makes the server reset streams, so that new ones can be opened without end ------------------------------------

test.each<[string, (streamId: number) => Buffer[]]>([
  ["resets its streams", (streamId) => [headers(streamId, END_STREAM), reset(streamId, ErrorCode.CANCEL)]],
  ["updates windows by 0", (streamId) => [headers(streamId, END_STREAM), windowUpdate(streamId, 0)]],
  ["overflows windows", (streamId) => [headers(streamId, END_STREAM), windowUpdate(streamId, 0x7fffffff)]],
  ["sends DATA after the end", (streamId) => [headers(streamId, END_STREAM), data(streamId, 0, Buffer.alloc(1))]],
  ["sends HEADERS after the end", (streamId) => [headers(streamId, END_STREAM), headers(streamId, END_STREAM)]],
  ["sends trailers that are none", (streamId) => [headers(streamId, 0), headers(streamId, 0)]],
  [
    "makes streams depend on themselves",
    (streamId) => [
      headers(streamId, END_STREAM),
      frame(2, 0, streamId, Buffer.concat([uint32(streamId), Buffer.from([1])])),
    ],
  ],
  [
    "sends PRIORITY of a wrong size",
    (streamId) => [headers(streamId, END_STREAM), frame(2, 0, streamId, Buffer.alloc(4))],
  ],
  [
    "sends more than it declared",
    (streamId) => [
      headers(streamId, 0, encodeHeaderBlock([...requestFields, ["content-length", "1"]])),
      data(streamId, 0, Buffer.alloc(2)),
    ],
  ],
  ["sends malformed requests", (streamId) => [headers(streamId, END_STREAM, encodeHeaderBlock([[":method", "GET"]]))]],
  ["sends more than a window", (streamId) => [headers(streamId, 0), data(streamId, 0, Buffer.alloc(1001))]],
  [
    "asks for more memory than there is",
    (streamId) => [
      headers(streamId, 0, encodeHeaderBlock([...requestFields, ["content-length", "2000"]])),
      data(streamId, 0, Buffer.alloc(1)),
    ],
  ],
])("a client that %s may do so only so often", (_, step) => {
  let requests = 0;
  const peer = serve(
    () => {
      requests += 1;
      return silent;
    },
    { resetBurst: 50, streamWindowBytes: 1000, maxBufferedBytes: 1024 },
  );
  expect(until(peer, 60, (index) => step(id(index)))).toBe(51);
  expect(peer.goaway?.errorCode).toBe(calm);
  expect(peer.goaway?.message).toContain("resetBurst (50)");
  expect(requests).toBeLessThanOrEqual(51);
});

test.each([
  ["after", END_STREAM],
  ["before", 0],
])("a client may reset as many streams as it lets the server answer, %s the request has ended", (_, flags) => {
  const peer = serve(
    (stream) => {
      if (stream.id % 4 === 1) stream.respond(ok, Buffer.alloc(20));
      return silent;
    },
    { resetBurst: 50 },
  );
  const answer = (index: number): Buffer => headers(4 * index + 1, flags);
  const cancel = (index: number): Buffer[] => [
    headers(4 * index + 3, END_STREAM),
    reset(4 * index + 3, ErrorCode.CANCEL),
  ];
  expect(until(peer, 1000, (index) => [answer(index), ...cancel(index)])).toBe(Infinity);
  // More answers earn no more than the burst.
  expect(until(peer, 1000, (index) => [answer(1000 + index)])).toBe(Infinity);
  expect(until(peer, 100, (index) => cancel(2000 + index))).toBe(51);
  expect(peer.goaway).toMatchObject({ errorCode: calm, message: expect.stringContaining("resetBurst (50)") });
});

test("two resets for each stream that is answered are too many", () => {
  const answered: StreamHandler = { body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(20)) };
  const peer = serve((stream) => (stream.id % 6 === 1 ? answered : silent), { resetBurst: 50 });
  const rounds = until(peer, 1000, (index) =>
    [1, 3, 5].flatMap((place) => {
      const opened = headers(6 * index + place, END_STREAM);
      return place === 1 ? [opened] : [opened, reset(6 * index + place, ErrorCode.CANCEL)];
    }),
  );
  expect(rounds).toBe(50);
  expect(peer.goaway?.errorCode).toBe(calm);
});

test("an answer that the client gives no window for earns it no reset", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(20)) }), {
    resetBurst: 50,
  });
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]));
  expect(until(peer, 100, (index) => [headers(id(index), END_STREAM), reset(id(index), ErrorCode.CANCEL)])).toBe(51);
});

test("100,000 streams that are opened and abandoned: few are served, none is kept, and the client is sent away", () => {
  let requests = 0;
  const peer = serve(() => {
    requests += 1;
    return silent;
  });
  let mostOpen = 0;
  const taken = until(peer, 100_000, (index) => {
    mostOpen = Math.max(mostOpen, peer.connection.openStreams);
    return [headers(id(index), 0)];
  });
  expect(taken).toBe(256 + 1000 + 1);
  expect(mostOpen).toBe(256);
  expect(requests).toBe(256);
  expect(peer.goaway?.errorCode).toBe(calm);
  expect(peer.connection.openStreams).toBe(0);
});

test("a client that cannot know yet how many streams it may open is only refused", () => {
  const peer = new MemoryPeer(
    (socket) =>
      new Http2ServerConnection(
        socket,
        { onRequest: () => silent },
        { limits: { maxConcurrentStreams: 1, resetBurst: 1 } },
      ),
  );
  peer.send(PREFACE, settings());
  for (let index = 0; index < 20; index++) peer.send(headers(id(index), 0));
  expect(peer.resets(1)).toEqual([]);
  expect(peer.resets(39)).toEqual([ErrorCode.REFUSED_STREAM]);
  expect(peer.connection.isClosed).toBe(false);
});

// ---- floods of frames that bring nothing -----------------------------------------------------------------------------

test.each<[string, Buffer, Buffer[]]>([
  ["WINDOW_UPDATE of the connection by 1", windowUpdate(0, 1), []],
  ["WINDOW_UPDATE of a stream by 1", windowUpdate(1, 1), [headers(1, 0)]],
  ["WINDOW_UPDATE of a stream that is closed", windowUpdate(1, 1), [headers(1, 0), reset(1, ErrorCode.CANCEL)]],
  ["PING acknowledgements", frame(6, 1, 0, Buffer.alloc(8)), []],
  ["SETTINGS acknowledgements", SETTINGS_ACK, []],
  ["GOAWAY", frame(7, 0, 0, Buffer.alloc(8)), []],
  ["RST_STREAM on a stream that is closed", reset(1, ErrorCode.CANCEL), [headers(1, 0)]],
  ["DATA of padding only", data(1, PADDED, Buffer.from([2, 0, 0])), [headers(1, 0)]],
  ["DATA on a stream that is closed", data(1, 0), [headers(1, 0), reset(1, ErrorCode.CANCEL)]],
])("a flood of %s ends the connection", (_, flood, before) => {
  const peer = serve(() => silent, { controlFrameBurst: 200 });
  peer.send(...before);
  expect(until(peer, 201, () => [flood])).toBeLessThanOrEqual(201);
  expect(peer.goaway?.errorCode).toBe(calm);
  expect(peer.goaway?.message).toContain("controlFrameBurst (200)");
});

test("a client that reads what it asked for may update its windows as often as it is sent data", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(20)) }), {
    controlFrameBurst: 10,
  });
  for (let index = 0; index < 1000; index++)
    peer.send(headers(id(index), END_STREAM), windowUpdate(id(index), 20), windowUpdate(0, 20));
  expect(peer.goaway).toBeUndefined();
});

test("a client may ask for a sign of life as often as it is sent data, and little more often", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(20)) }), {
    controlFrameBurst: 10,
  });
  const ping = frame(6, 0, 0, Buffer.alloc(8));
  for (let index = 0; index < 1000; index++) peer.send(headers(id(index), END_STREAM), ping);
  expect(peer.goaway).toBeUndefined();
  // Its SETTINGS and its acknowledgement of ours were two of the ten.
  expect(until(peer, 20, () => [ping])).toBe(9);
  expect(peer.goaway).toMatchObject({ errorCode: calm, message: expect.stringContaining("PING frames") });
});

test("a client may give each of its calls up just as it is answered, and send its trailers before it knows", () => {
  const peer = serve(
    (stream) => {
      stream.respond(ok, Buffer.alloc(20));
      return silent;
    },
    { controlFrameBurst: 10 },
  );
  for (let index = 0; index < 1000; index++)
    peer.send(headers(id(index), 0), headers(id(index), END_STREAM), reset(id(index), ErrorCode.CANCEL));
  expect(peer.goaway).toBeUndefined();
});

test("a client that grants an octet at a time is sent away", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(10_000)) }), {
    controlFrameBurst: 100,
  });
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), headers(1, END_STREAM));
  expect(until(peer, 200, () => [windowUpdate(1, 1)])).toBeLessThan(101);
  expect(peer.dataOf(1).length).toBeLessThan(101);
  expect(peer.goaway?.errorCode).toBe(calm);
});

test("a frame of a thousand settings is refused by its header", () => {
  const peer = serve();
  expect(peer.send(frame(4, 0, 0, Buffer.alloc(6000)).subarray(0, 9))[0]?.type).toBe(7);
  expect(peer.goaway).toMatchObject({ errorCode: calm, message: expect.stringContaining("1000 settings") });
});

test.each<[string, number, Buffer]>([
  ["PING", ErrorCode.FRAME_SIZE_ERROR, frame(6, 0, 0, Buffer.alloc(16_384))],
  ["WINDOW_UPDATE", ErrorCode.FRAME_SIZE_ERROR, frame(8, 0, 0, Buffer.alloc(16_384))],
  ["RST_STREAM", ErrorCode.FRAME_SIZE_ERROR, frame(3, 0, 1, Buffer.alloc(16_384))],
  ["PUSH_PROMISE", ErrorCode.PROTOCOL_ERROR, frame(5, 0, 1, Buffer.alloc(16_384))],
])("a %s frame of a wrong size is refused by its header", (_, errorCode, whole) => {
  const peer = serve();
  peer.send(whole.subarray(0, 9));
  expect(peer.goaway?.errorCode).toBe(errorCode);
});

test("a client that does not answer the last PING of a server that drains opens streams only for so long", () => {
  const keeper = new ConnectionKeeper({ keepaliveTimeoutMs: 500 });
  const peer = serve();
  keeper.add(peer.connection, peer.socket, 0);
  peer.send(headers(1, 0));
  peer.connection.drain();
  keeper.tick(1000);
  peer.send(headers(3, 0));
  keeper.tick(1499);
  peer.send(headers(5, 0));
  expect(peer.connection.openStreams).toBe(3);
  keeper.tick(1500);
  peer.send(headers(7, 0));
  expect(peer.goaway).toMatchObject({ errorCode: ErrorCode.NO_ERROR, lastStreamId: 5 });
  expect(peer.resets(7)).toEqual([ErrorCode.REFUSED_STREAM]);
  // What it had opened is still served.
  peer.send(...[1, 3, 5].map((streamId) => reset(streamId, ErrorCode.CANCEL)));
  expect(peer.connection.isClosed).toBe(true);
});

test("a keepalive or limit that is undefined has its default", () => {
  const keepalive: object = { setupTimeoutMs: undefined };
  const keeper = new ConnectionKeeper(keepalive);
  const limits: object = { maxFrameBytes: undefined };
  const socket = new net.Socket();
  const connection = new Http2ServerConnection(socket, { onRequest: () => ({ body: "pieces" }) }, { limits });
  keeper.add(connection, socket, 0);
  keeper.tick(9999);
  expect(connection.isClosed).toBe(false);
  keeper.tick(10_000);
  expect(connection.isClosed).toBe(true);
});

// ---- header blocks ---------------------------------------------------------------------------------------------------

test.each<[string, number, Buffer[]]>([
  [
    "a block that never ends",
    calm,
    [frame(1, 0, 1, request), ...Array.from({ length: 20 }, () => frame(9, 0, 1, Buffer.alloc(1)))],
  ],
  ["a block of much more than a list may be", calm, [headers(1, 0, Buffer.alloc(40_000, 0x82))]],
  ["a table size over the limit", ErrorCode.COMPRESSION_ERROR, [headers(1, 0, Buffer.from("3fe21f", "hex"))]],
  ["a frame of another stream inside a block", ErrorCode.PROTOCOL_ERROR, [frame(1, 0, 1, request), headers(3, 0)]],
  ["CONTINUATION without a block", ErrorCode.PROTOCOL_ERROR, [frame(9, END_HEADERS, 1)]],
  ["padding longer than the frame", ErrorCode.PROTOCOL_ERROR, [frame(1, END_HEADERS | PADDED, 1, Buffer.from([9, 0]))]],
  [
    "DATA with padding as long as the frame",
    ErrorCode.PROTOCOL_ERROR,
    [headers(1, 0), data(1, PADDED, Buffer.from([3, 0, 0]))],
  ],
])("%s ends the connection", (_, errorCode, frames) => {
  const peer = serve(() => silent, { maxFrameBytes: 65_536 });
  peer.send(...frames);
  expect(peer.goaway?.errorCode).toBe(errorCode);
});

test("a list over the limit is answered 431, whatever it refers to", () => {
  let requests = 0;
  const peer = serve(() => {
    requests += 1;
    return silent;
  });
  const encoder = new HpackEncoder();
  const large = encoder.encode([...requestFields, ["x", "v".repeat(1500)]]);
  peer.send(headers(1, END_STREAM, large));
  // 16,000 references of one octet to an entry of 1,533.
  const before = process.memoryUsage().heapUsed;
  const answer = peer.send(headers(3, END_STREAM, Buffer.alloc(16_000, 0xbe)));
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(8_000_000);
  expect(answer.map((each) => [each.type, each.streamId])).toEqual([[1, 3]]);
  expect(requests).toBe(1);
  expect(peer.connection.isClosed).toBe(false);
});

test("a client that makes its table smaller and larger all the time only hurts itself", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok) }));
  const encoder = new HpackEncoder();
  for (let index = 0; index < 500; index++) {
    encoder.limitTable(index % 2 === 0 ? 0 : 4096);
    const answer = peer.send(headers(id(index), END_STREAM, encoder.encode([...requestFields, ["x", `${index % 3}`]])));
    expect(answer[0]?.streamId).toBe(id(index));
  }
});

test("a smaller table binds the client once it knows of it, and then it must say so", () => {
  const opened: (string | undefined)[] = [];
  const start = (): MemoryPeer<Http2ServerConnection> => {
    const peer = new MemoryPeer(
      (socket) =>
        new Http2ServerConnection(
          socket,
          {
            onRequest(stream) {
              opened.push(stream.headers?.get("x"));
              return silent;
            },
          },
          { limits: { headerTableBytes: 0 } },
        ),
    );
    const encoder = new HpackEncoder();
    peer.send(PREFACE, settings());
    peer.send(headers(1, 0, encoder.encode([...requestFields, ["x", "y"]])));
    const second = encoder.encode([...requestFields, ["x", "y"]]);
    expect(second.length).toBeLessThan(10);
    peer.send(headers(3, 0, second), SETTINGS_ACK);
    return peer;
  };
  const good = start();
  const encoder = new HpackEncoder();
  encoder.limitTable(0);
  good.send(headers(5, 0, encoder.encode([...requestFields, ["x", "z"]])));
  expect(opened).toEqual(["y", "y", "z"]);
  const bad = start();
  bad.send(headers(5, 0));
  expect(bad.goaway?.errorCode).toBe(ErrorCode.COMPRESSION_ERROR);
});

// ---- bodies ----------------------------------------------------------------------------------------------------------

test("bodies that are not whole take no more memory than a connection may, whatever their streams declare", () => {
  const resets: number[] = [];
  const handler: StreamHandler = { body: "whole", onReset: (_, code) => resets.push(code) };
  const peer = serve(() => handler, { maxBufferedBytes: 4_000_000 });
  const declared = encodeHeaderBlock([...requestFields, ["content-length", "1000000"]]);
  let most = 0;
  for (let index = 0; index < 200; index++) {
    peer.send(headers(id(index), 0, declared), data(id(index), 0, Buffer.alloc(10)));
    most = Math.max(most, peer.connection.bufferedBytes);
  }
  expect(most).toBe(4_000_000);
  expect(resets).toEqual(Array.from({ length: 196 }, () => calm));
  peer.send(reset(1, ErrorCode.CANCEL));
  expect(peer.connection.bufferedBytes).toBe(3_000_000);
});

test("a body that grows piece by piece is charged as it grows, and given back when it is whole", () => {
  const bodies: number[] = [];
  const peer = serve(() => ({ body: "whole", onBody: (_, body) => bodies.push(body.length) }), {
    maxBufferedBytes: 100_000,
  });
  peer.send(headers(1, 0));
  for (let index = 0; index < 30; index++) peer.send(data(1, 0, Buffer.alloc(1000)));
  expect(peer.connection.bufferedBytes).toBe(32_000);
  peer.send(data(1, END_STREAM));
  expect(bodies).toEqual([30_000]);
  expect(peer.connection.bufferedBytes).toBe(0);
});

test("a body that is lent is whole each time, and its memory is used again", () => {
  const seen: { readonly first: number; readonly last: number; readonly memory: ArrayBufferLike }[] = [];
  const handler: StreamHandler = {
    body: "whole",
    borrowsBody: true,
    onBody(_, body) {
      expect(body.length).toBe(40_000);
      seen.push({ first: body[0] as number, last: body.at(-1) as number, memory: body.buffer });
    },
  };
  const peer = serve(() => handler);
  for (let index = 0; index < 3; index++) {
    const half = Buffer.alloc(10_000, index);
    peer.send(headers(id(index), 0), ...[0, 0, 0, END_STREAM].map((flags) => data(id(index), flags, half)));
  }
  expect(seen.map(({ first, last }) => [first, last])).toEqual([
    [0, 0],
    [1, 1],
    [2, 2],
  ]);
  expect(new Set(seen.map(({ memory }) => memory)).size).toBe(1);
  expect(peer.connection.bufferedBytes).toBe(0);
});

test.each<[string, (peer: MemoryPeer<Http2ServerConnection>) => void]>([
  ["reset", (peer) => peer.send(reset(3, ErrorCode.CANCEL))],
  ["too large", (peer) => peer.send(data(3, 0, Buffer.alloc(16_000)), data(3, 0, Buffer.alloc(16_000)))],
  ["lost with its connection", (peer) => peer.connection.destroy()],
  ["taken by a handler that throws", (peer) => peer.send(data(3, END_STREAM, Buffer.from("throw")))],
])("the memory of a body that is lent is used again after one that was %s", (_, end) => {
  const seen: ArrayBufferLike[] = [];
  const handler: StreamHandler = {
    body: "whole",
    borrowsBody: true,
    maxBodyBytes: 60_000,
    expectedBytes: () => 60_000,
    onBody(_stream, body) {
      if (body.subarray(-5).toString() === "throw") throw new Error("as asked");
      seen.push(body.buffer);
    },
    onBodyTooLarge: () => {},
  };
  const half = Buffer.alloc(16_000);
  const first = serve(() => handler);
  first.send(headers(1, 0), data(1, 0, half), data(1, END_STREAM, half));
  first.send(headers(3, 0), data(3, 0, half), data(3, 0, half));
  expect(first.connection.bufferedBytes).toBe(65_536);
  end(first);
  expect(first.connection.bufferedBytes).toBe(0);
  const second = serve(() => handler);
  second.send(headers(1, 0), data(1, 0, half), data(1, END_STREAM, half));
  expect(seen).toHaveLength(2);
  expect(seen[1]).toBe(seen[0]);
});

test("a body that is lent is charged for all the memory that it takes", () => {
  const handler: StreamHandler = { body: "whole", borrowsBody: true };
  const peer = serve(() => handler, { maxBufferedBytes: 100_000 });
  const declared = encodeHeaderBlock([...requestFields, ["content-length", "33000"]]);
  peer.send(headers(1, 0, declared), data(1, 0, Buffer.alloc(10)));
  expect(peer.connection.bufferedBytes).toBe(65_536);
  peer.send(headers(3, 0, declared), data(3, 0, Buffer.alloc(10)));
  expect(peer.resets(3)).toEqual([calm]);
});

test.each([
  ["lent, and its length is declared", true, 300_000],
  ["lent, and its length is not known", true, undefined],
  ["kept, and its length is declared", false, 300_000],
  ["kept, and its length is not known", false, undefined],
])("a body as large as its handler takes has room on any connection, alone: %s", (_, borrowsBody, declared) => {
  const bodies: number[] = [];
  const handler: StreamHandler = {
    body: "whole",
    borrowsBody,
    maxBodyBytes: 300_000,
    onBody: (_stream, body) => bodies.push(body.length),
  };
  const peer = serve(() => handler, { maxBufferedBytes: 100_000 });
  const fields =
    declared === undefined ? requestFields : [...requestFields, ["content-length", `${declared}`] as const];
  const head = encodeHeaderBlock(fields);
  peer.send(headers(1, 0, head), headers(3, 0, head));
  const piece = Buffer.alloc(15_000);
  for (let index = 0; index < 19; index++) peer.send(data(1, 0, piece));
  expect(peer.connection.bufferedBytes).toBe(borrowsBody ? 524_288 : 300_000);
  peer.send(data(3, 0, piece));
  expect(peer.resets(3)).toEqual([calm]);
  peer.send(data(1, END_STREAM, piece));
  expect(bodies).toEqual([300_000]);
  expect(peer.connection.bufferedBytes).toBe(0);
});

test("a stream that its handler ends when it is asked for a length holds no memory", () => {
  const handler: StreamHandler = {
    body: "whole",
    expectedBytes(stream) {
      stream.respond(ok);
      return 1000;
    },
  };
  const peer = serve(() => handler);
  peer.send(headers(1, 0), data(1, 0, Buffer.alloc(10)));
  expect([peer.connection.openStreams, peer.connection.bufferedBytes]).toEqual([0, 0]);
});

test("answers that the client gives no window for take no more memory than a connection may", () => {
  const body = Buffer.alloc(50_000);
  let refused = 0;
  const handler: StreamHandler = {
    body: "whole",
    onBody: (stream) => stream.respond(ok, body),
    onReset: () => (refused += 1),
  };
  const peer = serve(() => handler, { maxQueuedBytes: 1_000_000, maxConcurrentStreams: 1000 });
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]));
  let most = 0;
  for (let index = 0; index < 200; index++) {
    peer.send(headers(id(index), END_STREAM));
    most = Math.max(most, peer.connection.queuedBytes);
  }
  expect(most).toBeLessThanOrEqual(1_050_000);
  expect(refused).toBe(200 - 21);
  // Window makes room again.
  for (let index = 0; index < 21; index++) peer.send(windowUpdate(id(index), 50_000), windowUpdate(0, 50_000));
  expect(peer.connection.queuedBytes).toBe(0);
  expect(peer.connection.openStreams).toBe(0);
});

test("what one read asks for is answered only as far as the client reads the answers", () => {
  const body = Buffer.alloc(60_000, 1);
  let requests = 0;
  const handler: StreamHandler = { body: "whole", onBody: (stream) => stream.respond(ok, body) };
  const peer = serve(
    () => {
      requests += 1;
      return handler;
    },
    { maxOutputBytes: 200_000 },
  );
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0x7fffffff]), windowUpdate(0, 0x7fff0000));
  peer.socket.taking = false;
  peer.send(...Array.from({ length: 1000 }, (_, index) => headers(id(index), END_STREAM)));
  expect(peer.connection.queuedBytes).toBeLessThan(400_000);
  expect(requests).toBeLessThan(8);
  expect(peer.socket.isPaused()).toBe(true);
});

test("it goes on with what it had read when the client reads again, and loses nothing", async () => {
  const body = Buffer.alloc(60_000, 1);
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, body) }), {
    maxOutputBytes: 200_000,
  });
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0x7fffffff]), windowUpdate(0, 0x7fff0000));
  peer.socket.taking = false;
  peer.send(...Array.from({ length: 50 }, (_, index) => headers(id(index), END_STREAM)));
  while (peer.dataOf(id(49)).length < body.length) {
    peer.socket.readAgain();
    await new Promise(setImmediate);
  }
  for (let index = 0; index < 50; index++) expect(peer.dataOf(id(index)).equals(body)).toBe(true);
  expect(peer.socket.isPaused()).toBe(false);
});

test("paused streams together hold no more than the connection's window, and give it back", () => {
  const streams: Http2Stream[] = [];
  const peer = serve(
    (stream) => {
      stream.pause();
      streams.push(stream);
      return { body: "pieces" };
    },
    { streamWindowBytes: 70_000, connectionWindowBytes: 100_000 },
  );
  const updates = (frames: readonly { type: number; streamId: number; payload: Buffer }[]): number[][] =>
    frames.filter((each) => each.type === 8).map((each) => [each.streamId, each.payload.readUInt32BE(0)]);
  expect(updates(peer.send(headers(1, 0), headers(3, 0), data(1, 0, Buffer.alloc(16_000))))).toEqual([]);
  for (const stream of [1, 3, 1, 3, 1]) expect(updates(peer.send(data(stream, 0, Buffer.alloc(16_000))))).toEqual([]);
  streams[0]?.resume();
  expect(updates(peer.send(reset(3, ErrorCode.CANCEL)))).toEqual([
    [0, 64_000],
    [1, 64_000],
  ]);
});

test("data of streams that are gone is credited to the connection, so that the others go on", () => {
  const peer = serve(() => silent, { connectionWindowBytes: 65_535, streamWindowBytes: 65_535 });
  peer.send(headers(1, 0), headers(3, 0), reset(1, ErrorCode.CANCEL));
  let granted = 0;
  for (let index = 0; index < 20; index++) {
    for (const each of peer.send(data(1, 0, Buffer.alloc(16_000)))) {
      if (each.type === 8 && each.streamId === 0) granted += each.payload.readUInt32BE(0);
    }
  }
  expect(granted).toBeGreaterThan(320_000 - 65_535);
  expect(peer.connection.isClosed).toBe(false);
});

test("padding counts for the windows and not for the body, wherever reads cut it", () => {
  const padded = data(1, PADDED, Buffer.concat([Buffer.from([5]), Buffer.from("body"), Buffer.alloc(5)]));
  for (let cut = 0; cut <= padded.length; cut++) {
    const bodies: string[] = [];
    const peer = serve(() => ({ body: "whole", onBody: (_, body) => bodies.push(body.toString()) }), {
      streamWindowBytes: 20,
    });
    const updates = [
      ...peer.send(headers(1, 0), padded.subarray(0, cut)),
      ...peer.send(padded.subarray(cut), data(1, END_STREAM, Buffer.from("+"))),
    ].filter((each) => each.type === 8);
    expect(bodies).toEqual(["body+"]);
    expect(updates.map((each) => each.payload.readUInt32BE(0))).toEqual([10]);
  }
});

test("a body over its limit that nobody answers costs the client its stream", () => {
  const peer = serve(() => ({ body: "whole", maxBodyBytes: 10 }));
  peer.send(headers(1, 0), data(1, 0, Buffer.alloc(11)));
  expect(peer.resets(1)).toEqual([calm]);
});

test("an answer that is complete before the request ends the stream, and what still comes is dropped", () => {
  const resets: number[] = [];
  const peer = serve((stream) => {
    stream.respond(ok, Buffer.from("early"));
    return { body: "whole", onReset: (_, code) => resets.push(code), onBody: () => resets.push(-1) };
  });
  peer.send(headers(1, 0));
  expect(peer.dataOf(1).toString()).toBe("early");
  expect(peer.resets(1)).toEqual([ErrorCode.NO_ERROR]);
  expect(peer.connection.openStreams).toBe(0);
  expect(peer.send(data(1, 0, Buffer.alloc(100)), data(1, END_STREAM))).toEqual([]);
  expect(resets).toEqual([]);
  // A request that has ended needs no reset.
  peer.send(headers(3, END_STREAM));
  expect(peer.resets(3)).toEqual([]);
});

test.each<[string, Buffer[]]>([
  ["has ended its request", [headers(1, END_STREAM)]],
  ["is still sending its request", [headers(1, 0)]],
  ["gives no window for the answer", [settings([Setting.INITIAL_WINDOW_SIZE, 0]), headers(1, END_STREAM)]],
])("a client that %s cancels with NO_ERROR too", (_, before) => {
  const told: string[] = [];
  const peer = serve((stream) => {
    stream.sendHeaders(ok);
    stream.sendData(Buffer.from("first"));
    return {
      body: "whole",
      onReset: (_stream, code) => told.push(`reset ${code}`),
      onWritable: () => told.push("writable"),
    };
  });
  peer.send(...before, reset(1, ErrorCode.NO_ERROR));
  expect(told).toEqual([`reset ${ErrorCode.CANCEL}`]);
  expect([peer.connection.openStreams, peer.connection.queuedBytes]).toEqual([0, 0]);
  expect(peer.connection.isClosed).toBe(false);
});

// ---- handlers that fail ----------------------------------------------------------------------------------------------

test("a handler that throws when it is told of the end does not keep the others from being told", () => {
  const told: number[] = [];
  const failures: unknown[] = [];
  const handler: StreamHandler = {
    body: "whole",
    onReset(stream) {
      told.push(stream.id);
      throw new Error(`bug ${stream.id}`);
    },
  };
  const peer = serve(() => handler, {}, { onHandlerError: (cause) => failures.push((cause as Error).message) });
  peer.send(headers(1, 0), headers(3, 0), headers(5, 0), reset(5, ErrorCode.CANCEL));
  peer.connection.destroy();
  expect(told).toEqual([5, 1, 3]);
  expect(failures).toEqual(["bug 5", "bug 1", "bug 3"]);
});

test("a handler that throws an error of another connection loses its own stream only", () => {
  const failures: unknown[] = [];
  const elsewhere = new Http2Error("connection", ErrorCode.PROTOCOL_ERROR, "elsewhere");
  const peer = serve(
    () => {
      throw elsewhere;
    },
    {},
    { onHandlerError: (cause) => failures.push(cause) },
  );
  peer.send(headers(1, 0));
  expect(failures).toEqual([elsewhere]);
  expect(peer.resets(1)).toEqual([ErrorCode.INTERNAL_ERROR]);
  expect(peer.connection.isClosed).toBe(false);
});

// ---- streams after their end, and connections after theirs -----------------------------------------------------------

test.each<[string, Buffer[], number[]]>([
  ["WINDOW_UPDATE after the request has ended is fine", [windowUpdate(1, 10)], []],
  ["PRIORITY after the request has ended is fine", [frame(2, 0, 1, Buffer.from("0000000310", "hex"))], []],
  ["DATA after the request has ended is not", [data(1, 0)], [ErrorCode.STREAM_CLOSED]],
  ["trailers after the request has ended are not", [headers(1, END_STREAM)], [ErrorCode.STREAM_CLOSED]],
])("%s", (_, frames, resets) => {
  const peer = serve();
  peer.send(headers(1, END_STREAM), ...frames);
  expect(peer.resets(1)).toEqual(resets);
  expect(peer.connection.isClosed).toBe(false);
});

test.each<[string, number, Buffer]>([
  ["DATA on a stream that was never opened", ErrorCode.PROTOCOL_ERROR, data(9, 0)],
  ["RST_STREAM on a stream that was never opened", ErrorCode.PROTOCOL_ERROR, reset(9, 8)],
  ["WINDOW_UPDATE on a stream that was never opened", ErrorCode.PROTOCOL_ERROR, windowUpdate(9, 1)],
  ["HEADERS on a stream that has ended", ErrorCode.STREAM_CLOSED, headers(3, END_STREAM)],
  ["HEADERS on an even stream", ErrorCode.PROTOCOL_ERROR, headers(2, END_STREAM)],
  ["HEADERS on a stream that was passed over", ErrorCode.STREAM_CLOSED, headers(1, END_STREAM)],
  ["a window of the connection over 2^31 - 1", ErrorCode.FLOW_CONTROL_ERROR, windowUpdate(0, 0x7fffffff)],
  ["an update of the connection's window by 0", ErrorCode.PROTOCOL_ERROR, windowUpdate(0, 0)],
  ["a window size over 2^31 - 1", ErrorCode.FLOW_CONTROL_ERROR, settings([Setting.INITIAL_WINDOW_SIZE, 0x80000000])],
  ["a frame size below 2^14", ErrorCode.PROTOCOL_ERROR, settings([Setting.MAX_FRAME_SIZE, 16_383])],
  ["push that is neither on nor off", ErrorCode.PROTOCOL_ERROR, settings([Setting.ENABLE_PUSH, 2])],
  ["SETTINGS that are cut off", ErrorCode.FRAME_SIZE_ERROR, frame(4, 0, 0, Buffer.alloc(5))],
  ["an acknowledgement with settings", ErrorCode.FRAME_SIZE_ERROR, frame(4, 1, 0, Buffer.alloc(6))],
])("%s ends the connection", (_, errorCode, bytes) => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok) }));
  peer.send(headers(3, END_STREAM));
  peer.send(bytes);
  expect(peer.goaway).toMatchObject({ errorCode, lastStreamId: 3 });
  expect(peer.connection.isClosed).toBe(true);
  // Nothing that follows is looked at.
  expect(peer.send(headers(5, END_STREAM))).toEqual([]);
});

test("windows that the client makes smaller go below zero, and nothing is sent until they are above it", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(100)) }));
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 60]), headers(1, END_STREAM));
  expect(peer.dataOf(1).length).toBe(60);
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 20]), windowUpdate(1, 40));
  expect(peer.dataOf(1).length).toBe(60);
  peer.send(windowUpdate(1, 1));
  expect(peer.dataOf(1).length).toBe(61);
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 1000]));
  expect(peer.dataOf(1).length).toBe(100);
});

test("streams that wait for the connection's window get it in turn", () => {
  const peer = serve(() => ({ body: "whole", onBody: (stream) => stream.respond(ok, Buffer.alloc(100_000)) }));
  peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 1_000_000]));
  peer.send(headers(1, END_STREAM), headers(3, END_STREAM), headers(5, END_STREAM));
  expect([1, 3, 5].map((each) => peer.dataOf(each).length)).toEqual([65_535, 0, 0]);
  for (let turn = 0; turn < 6; turn++) peer.send(windowUpdate(0, 1000));
  expect([1, 3, 5].map((each) => peer.dataOf(each).length)).toEqual([67_535, 2000, 2000]);
});

test("a connection that drains serves what comes before the client knows, and refuses what comes after", () => {
  const served: number[] = [];
  const peer = serve((stream) => {
    served.push(stream.id);
    return silent;
  });
  peer.send(headers(1, 0));
  peer.connection.drain();
  peer.send(headers(3, 0));
  expect(peer.goaway).toBeDefined();
  const ping = peer.socket.frames.find((each) => each.type === 6);
  const answer = peer.send(frame(6, 1, 0, ping?.payload), headers(5, 0));
  expect(answer.map((each) => [each.type, each.streamId])).toEqual([
    [7, 0],
    [3, 5],
  ]);
  expect(peer.goaway).toEqual({ lastStreamId: 3, errorCode: 0, message: "" });
  expect(served).toEqual([1, 3]);
  // The GOAWAY with which it ends does not take back that it has refused a stream.
  const end = peer.send(reset(1, ErrorCode.CANCEL), reset(3, ErrorCode.CANCEL));
  expect(end.map((each) => [each.type, each.payload.readUInt32BE(0)])).toEqual([[7, 3]]);
});

// ---- malformed requests (RFC 9113, section 8) --------------------------------------------------------------------------

const [method, scheme, path, authority] = requestFields as [
  (typeof requestFields)[0],
  (typeof requestFields)[0],
  (typeof requestFields)[0],
  (typeof requestFields)[0],
];

test.each<[string, readonly (readonly [string, string])[]]>([
  ["no method", [scheme, path, authority]],
  ["a method that is no token", [[":method", "G T"], scheme, path, authority]],
  ["no scheme", [method, path, authority]],
  ["an empty path", [method, scheme, [":path", ""], authority]],
  ["a path without a slash", [method, scheme, [":path", "x"], authority]],
  ["no authority", [method, scheme, path]],
  ["an empty authority", [method, scheme, path, [":authority", ""]]],
  ["a host that is another", [...requestFields, ["host", "b"]]],
  ["a pseudo-header field twice", [...requestFields, path]],
  ["an unknown pseudo-header field", [...requestFields, [":x", "y"]]],
  ["a response's pseudo-header field", [...requestFields, [":status", "200"]]],
  ["a pseudo-header field after others", [method, scheme, path, ["x", "y"], authority]],
  ["an upper-case name", [...requestFields, ["X-y", "z"]]],
  ["an empty name", [...requestFields, ["", "z"]]],
  ["a name with a colon", [...requestFields, ["x:y", "z"]]],
  ["a line break in a value", [...requestFields, ["x", "y\r\nz: 1"]]],
  ["a NUL in a value", [...requestFields, ["x", "y\0"]]],
  ["a NUL in the path", [method, scheme, [":path", "/\0"], authority]],
  ["a space at the start of a value", [...requestFields, ["x", " y"]]],
  ["connection", [...requestFields, ["connection", "close"]]],
  ["transfer-encoding", [...requestFields, ["transfer-encoding", "chunked"]]],
  ["te that is not trailers", [...requestFields, ["te", "gzip"]]],
  ["content-length that is no number", [...requestFields, ["content-length", "+1"]]],
  ["two lengths", [...requestFields, ["content-length", "1"], ["content-length", "2"]]],
  ["CONNECT with a path", [[":method", "CONNECT"], authority, path]],
])("a request with %s costs its stream, and no handler sees it", (_, fields) => {
  let requests = 0;
  const peer = serve(() => {
    requests += 1;
    return silent;
  });
  peer.send(headers(1, 0, encodeHeaderBlock(fields)));
  expect(peer.resets(1)).toEqual([ErrorCode.PROTOCOL_ERROR]);
  expect(requests).toBe(0);
  expect(peer.connection.isClosed).toBe(false);
});

test.each<[string, readonly (readonly [string, string])[]]>([
  ["host instead of an authority", [method, scheme, path, ["host", "a"]]],
  ["host beside an authority", [...requestFields, ["host", "A"]]],
  ["OPTIONS of everything", [[":method", "OPTIONS"], scheme, [":path", "*"], authority]],
  ["te: trailers", [...requestFields, ["te", "trailers"]]],
  ["CONNECT", [[":method", "CONNECT"], authority]],
  ["one length twice", [...requestFields, ["content-length", "3"], ["content-length", "3"]]],
  ["octets beyond ASCII in a value", [...requestFields, ["x", "\u00e9\u00ff"]]],
  ["an empty value", [...requestFields, ["x", ""]]],
])("a request with %s is served", (_, fields) => {
  let requests = 0;
  const peer = serve(() => {
    requests += 1;
    return silent;
  });
  peer.send(headers(1, 0, encodeHeaderBlock(fields)));
  expect(requests).toBe(1);
  expect(peer.resets(1)).toEqual([]);
});
