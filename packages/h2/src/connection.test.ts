import http2 from "node:http2";
import net from "node:net";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { connect } from "./client.ts";
import { Http2ClientConnection } from "./client-connection.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import type { ConnectionLimits } from "./limits.ts";
import { ErrorCode } from "./protocol.ts";
import { Http2ServerConnection, type ServerConnectionEvents } from "./server-connection.ts";
import type { Http2Stream, StreamHandler } from "./stream.ts";

const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
});

const ok = encodeHeaderBlock([[":status", "200"]]);
const trailers = encodeHeaderBlock([["grpc-status", "0"]]);

/** Answers with the body that came, whole, and a trailer. */
const echo: StreamHandler = { body: "whole", onBody: (stream, body) => stream.respond(ok, body, trailers) };

interface Serving {
  readonly port: number;
  readonly connections: Http2ServerConnection[];
}

async function serve(
  onRequest: ServerConnectionEvents["onRequest"],
  limits: Partial<ConnectionLimits> = {},
  nowMs = () => 0,
): Promise<Serving> {
  const connections: Http2ServerConnection[] = [];
  const server = net.createServer((socket) => {
    connections.push(new Http2ServerConnection(socket, { onRequest }, { limits, nowMs }));
    cleanups.push(() => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => server.close());
  return { port: (server.address() as net.AddressInfo).port, connections };
}

function nodeClient(port: number, settings: http2.Settings = {}): http2.ClientHttp2Session {
  const session = http2.connect(`http://127.0.0.1:${port}`, { settings });
  session.on("error", () => {});
  cleanups.push(() => session.destroy());
  return session;
}

async function call(session: http2.ClientHttp2Session, body: Buffer, headers: http2.OutgoingHttpHeaders = {}) {
  const stream = session.request({ ":method": "POST", ":path": "/x", ...headers });
  let head: http2.IncomingHttpHeaders = {};
  let tail: http2.IncomingHttpHeaders = {};
  stream.on("response", (block) => (head = block));
  stream.on("trailers", (block) => (tail = block));
  stream.end(body);
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece as Buffer);
  return { status: head[":status"], body: Buffer.concat(pieces), trailers: tail };
}

function seeded(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; at++) bytes[at] = Math.imul(at + 1, 2_654_435_761) >>> 24;
  return bytes;
}

test.each([0, 1, 16_384, 16_385, 1_000_000, 3_000_000])(
  "node:http2 gets back a body of %d bytes, with trailers",
  async (length) => {
    const { port } = await serve(() => echo);
    const body = seeded(length);
    const answer = await call(nodeClient(port), body);
    expect(answer.status).toBe(200);
    expect(answer.body.equals(body)).toBe(true);
    expect(answer.trailers["grpc-status"]).toBe("0");
  },
);

test("windows of any size, ours and the peer's, only slow a body down", async () => {
  const { port } = await serve(() => echo, { streamWindowBytes: 1000, connectionWindowBytes: 65_535 });
  const session = nodeClient(port, { initialWindowSize: 777 });
  const bodies = Array.from({ length: 8 }, (_, index) => seeded(100_000 + index));
  const answers = await Promise.all(bodies.map((body) => call(session, body)));
  for (const [index, answer] of answers.entries()) expect(answer.body.equals(bodies[index] as Buffer)).toBe(true);
});

test("a body in pieces is the same, and one that is paused gets no more than a window", async () => {
  let paused: Http2Stream | undefined;
  let received = 0;
  const reachedWindow = Promise.withResolvers<void>();
  const done = Promise.withResolvers<number>();
  const handler: StreamHandler = {
    body: "pieces",
    onData(_, piece) {
      received += piece.length;
      if (received === 65_535) reachedWindow.resolve();
    },
    onEnd(stream) {
      stream.respond(ok);
      done.resolve(received);
    },
  };
  const { port } = await serve(
    (stream) => {
      paused = stream;
      stream.pause();
      return handler;
    },
    { streamWindowBytes: 65_535 },
  );
  const session = nodeClient(port);
  const answer = call(session, seeded(200_000));
  await reachedWindow.promise;
  // A round trip later nothing more has come.
  await new Promise((resolve) => session.ping(Buffer.alloc(8), resolve));
  expect(received).toBe(65_535);
  paused?.resume();
  expect(await done.promise).toBe(200_000);
  expect((await answer).status).toBe(200);
});

test("a body over its limit is reported once and dropped", async () => {
  const seen: number[] = [];
  const handler: StreamHandler = {
    body: "whole",
    maxBodyBytes: 10_000,
    onBodyTooLarge(stream, atLeastBytes) {
      seen.push(atLeastBytes);
      stream.respond(encodeHeaderBlock([[":status", "413"]]));
    },
  };
  const { port } = await serve(() => handler);
  const answer = await call(nodeClient(port), seeded(400_000));
  expect(answer.status).toBe(413);
  expect(seen).toHaveLength(1);
  expect(seen[0]).toBeGreaterThan(10_000);
});

test("a reset by the client reaches the handler with its code", async () => {
  const reset = Promise.withResolvers<number>();
  const { port } = await serve(() => ({ body: "whole", onReset: (_, code) => reset.resolve(code) }));
  const stream = nodeClient(port).request({ ":method": "POST", ":path": "/" });
  stream.on("error", () => {});
  stream.write("x", () => stream.close(http2.constants.NGHTTP2_CANCEL));
  expect(await reset.promise).toBe(ErrorCode.CANCEL);
});

test("a handler that throws loses its own stream only", async () => {
  const { port } = await serve((stream) => ({
    body: "whole",
    onBody(each, body) {
      if (stream.headers?.get("x-throw") === "1") throw new Error("a bug");
      each.respond(ok, body);
    },
  }));
  const session = nodeClient(port);
  const [good, bad] = await Promise.allSettled([
    call(session, Buffer.from("good")),
    call(session, Buffer.from("bad"), { "x-throw": "1" }),
  ]);
  expect(good).toMatchObject({ status: "fulfilled", value: { status: 200 } });
  expect(bad).toMatchObject({
    status: "rejected",
    reason: { message: "Stream closed with error code NGHTTP2_INTERNAL_ERROR" },
  });
});

test("draining finishes what is open, refuses nothing that was sent before, and then closes", async () => {
  const streams: Http2Stream[] = [];
  const opened = Promise.withResolvers<void>();
  const { port, connections } = await serve((stream) => {
    streams.push(stream);
    return { body: "whole", onBody: () => opened.resolve() };
  });
  const session = nodeClient(port);
  const answer = call(session, Buffer.from("x"));
  await opened.promise;
  const goaway = once(session, "goaway");
  connections[0]?.drain();
  expect((await goaway)[0]).toBe(0);
  streams[0]?.respond(ok, Buffer.from("late"));
  expect((await answer).body.toString()).toBe("late");
  await once(session, "close");
  expect(connections[0]?.isClosed).toBe(true);
});

// ---- raw frames -------------------------------------------------------------------------------------------------------

function frame(type: number, flags: number, streamId: number, payload: Uint8Array = new Uint8Array()): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

const start = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0)]);
const request = encodeHeaderBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "a"],
]);

/** Sends bytes and reads until the server closes: the error code and message of its GOAWAY. */
async function goawayAfter(port: number, bytes: Buffer): Promise<{ code: number; debug: string; received: Buffer }> {
  const socket = net.connect(port, "127.0.0.1");
  const pieces: Buffer[] = [];
  socket.on("data", (piece: Buffer) => pieces.push(piece));
  socket.on("error", () => {});
  socket.write(bytes);
  await once(socket, "close");
  const received = Buffer.concat(pieces);
  for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
    if (received[at + 3] !== 7) continue;
    const end = at + 9 + received.readUIntBE(at, 3);
    return { code: received.readUInt32BE(at + 13), debug: received.toString("utf8", at + 17, end), received };
  }
  throw new Error(`no GOAWAY in ${received.toString("hex")}`);
}

const small = { controlFrameBurst: 100, resetBurst: 100 };

test.each<[string, number, Buffer]>([
  [
    "PING",
    ErrorCode.ENHANCE_YOUR_CALM,
    Buffer.concat(Array.from({ length: 200 }, () => frame(6, 0, 0, Buffer.alloc(8)))),
  ],
  ["SETTINGS", ErrorCode.ENHANCE_YOUR_CALM, Buffer.concat(Array.from({ length: 200 }, () => frame(4, 0, 0)))],
  [
    "PRIORITY",
    ErrorCode.ENHANCE_YOUR_CALM,
    Buffer.concat(Array.from({ length: 200 }, () => frame(2, 0, 1, Buffer.from("0000000310", "hex")))),
  ],
  [
    "empty DATA",
    ErrorCode.ENHANCE_YOUR_CALM,
    Buffer.concat([frame(1, 4, 1, request), ...Array.from({ length: 200 }, () => frame(0, 0, 1))]),
  ],
  [
    "rapid reset",
    ErrorCode.ENHANCE_YOUR_CALM,
    Buffer.concat(
      Array.from({ length: 200 }, (_, index) =>
        Buffer.concat([frame(1, 5, 2 * index + 1, request), frame(3, 0, 2 * index + 1, Buffer.from([0, 0, 0, 8]))]),
      ),
    ),
  ],
  [
    "CONTINUATION",
    ErrorCode.ENHANCE_YOUR_CALM,
    Buffer.concat([frame(1, 0, 1, request), ...Array.from({ length: 200 }, () => frame(9, 0, 1))]),
  ],
  [
    "frames of unknown types",
    ErrorCode.ENHANCE_YOUR_CALM,
    Buffer.concat(Array.from({ length: 200 }, () => frame(99, 0, 1))),
  ],
])("a flood of %s ends the connection", async (_, code, flood) => {
  const { port } = await serve(() => ({ body: "whole" }), small);
  expect((await goawayAfter(port, Buffer.concat([start, flood]))).code).toBe(code);
});

test("more data than a window is a FLOW_CONTROL_ERROR, of the stream or of the connection", async () => {
  const { port } = await serve(() => ({ body: "whole" }), { streamWindowBytes: 1000, connectionWindowBytes: 65_535 });
  const acknowledged = Buffer.concat([start, frame(4, 1, 0), frame(1, 4, 1, request)]);
  const ofStream = await goawayAfter(
    port,
    Buffer.concat([acknowledged, frame(0, 0, 1, Buffer.alloc(1001)), frame(0, 0, 0)]),
  );
  expect(ofStream.code).toBe(ErrorCode.PROTOCOL_ERROR);
  expect(ofStream.received.includes(frame(3, 0, 1, Buffer.from([0, 0, 0, ErrorCode.FLOW_CONTROL_ERROR])))).toBe(true);
  // Of the connection: data of a stream that was reset counts, and its window is given back only when half of it is used.
  const wide = await serve(() => ({ body: "whole" }), {
    streamWindowBytes: 0x7fffffff,
    connectionWindowBytes: 65_535,
    maxFrameBytes: 70_000,
  });
  const ofConnection = await goawayAfter(
    wide.port,
    Buffer.concat([start, frame(4, 1, 0), frame(1, 4, 1, request), frame(0, 0, 1, Buffer.alloc(65_536))]),
  );
  expect(ofConnection.code).toBe(ErrorCode.FLOW_CONTROL_ERROR);
});

test("a peer that asks for much and reads nothing is not read from either", async () => {
  let requests = 0;
  const total = 5000;
  const allSeen = Promise.withResolvers<void>();
  const big = Buffer.alloc(60_000);
  const { port, connections } = await serve(
    () => {
      requests += 1;
      if (requests === total) allSeen.resolve();
      return { body: "whole", onBody: (stream) => stream.respond(ok, big) };
    },
    { maxOutputBytes: 100_000, maxConcurrentStreams: 100_000 },
  );
  const socket = net.connect(port, "127.0.0.1");
  cleanups.push(() => socket.destroy());
  socket.pause();
  const wide = Buffer.concat([
    start,
    frame(4, 0, 0, Buffer.from("00047fffffff", "hex")),
    frame(8, 0, 0, Buffer.from("7fff0000", "hex")),
  ]);
  socket.write(wide);
  for (let index = 0; index < total; index++) socket.write(frame(1, 5, 2 * index + 1, request));
  // It is stalled when the server's socket is full and it has stopped reading.
  while ((connections[0]?.queuedBytes ?? 0) <= 100_000) await new Promise(setImmediate);
  const stalledAt = requests;
  expect(stalledAt).toBeLessThan(total);
  socket.resume();
  await allSeen.promise;
  expect(requests).toBe(total);
});

test("random bytes after the preface never break the server", async () => {
  const { port } = await serve(() => echo);
  let state = 1;
  const random = () => (state = Math.imul(state, 1_103_515_245) + 12_345) >>> 16;
  for (let round = 0; round < 200; round++) {
    const frames = Array.from({ length: 1 + (random() % 5) }, () =>
      frame(
        random() % 10,
        random() & 0xff,
        random() % 8,
        Buffer.from(Array.from({ length: random() % 40 }, () => random() & 0xff)),
      ),
    );
    const socket = net.connect(port, "127.0.0.1");
    socket.on("error", () => {});
    socket.resume();
    socket.end(Buffer.concat([start, ...frames]));
    await once(socket, "close");
  }
  expect((await call(nodeClient(port), Buffer.from("alive"))).body.toString()).toBe("alive");
});

// ---- our client -------------------------------------------------------------------------------------------------------

interface Answer {
  status: string | undefined;
  body: string;
  trailers: string | undefined;
}

function ask(connection: Http2ClientConnection, head: Buffer, body?: Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const stream = connection.request(head, body, {
      body: "whole",
      onBody: (answered, whole, tail) =>
        resolve({
          status: answered.headers?.get(":status"),
          body: whole.toString("latin1"),
          trailers: tail?.get("grpc-status"),
        }),
      onReset: (_, code) => reject(new Error(`reset ${code}`)),
    });
    if (stream === undefined) reject(new Error("no room for a stream"));
  });
}

async function connectTo(port: number, limits: Partial<ConnectionLimits> = {}): Promise<Http2ClientConnection> {
  const socket = net.connect(port, "127.0.0.1");
  cleanups.push(() => socket.destroy());
  await once(socket, "connect");
  return new Http2ClientConnection(socket, {}, { limits });
}

const post = encodeHeaderBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/x"],
  [":authority", "a"],
  ["te", "trailers"],
]);

async function nodeServer(onStream: (stream: http2.ServerHttp2Stream) => void): Promise<number> {
  const server = http2.createServer();
  server.on("stream", onStream);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => server.close());
  return (server.address() as net.AddressInfo).port;
}

test.each([0, 1, 100_000, 2_000_000])(
  "our client gets %d bytes back from node:http2, after 1xx, with trailers",
  async (length) => {
    const port = await nodeServer((stream) => {
      stream.additionalHeaders({ ":status": 103 });
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "7" }));
      stream.pipe(stream);
    });
    const body = seeded(length);
    const connection = await connectTo(port, { streamWindowBytes: 30_000 });
    expect(await ask(connection, post, body)).toEqual({ status: "200", body: body.toString("latin1"), trailers: "7" });
  },
);

test("our client and our server speak to each other, many streams at once", async () => {
  const { port } = await serve(() => echo);
  const connection = await connectTo(port);
  // By then the server has said how many streams it allows.
  await connection.ping();
  const bodies = Array.from({ length: 200 }, (_, index) => seeded(index * 50));
  const answers = await Promise.all(bodies.map((body) => ask(connection, post, body)));
  for (const [index, answer] of answers.entries()) {
    expect(answer).toEqual({ status: "200", body: bodies[index]?.toString("latin1"), trailers: "0" });
  }
  expect(await connection.ping()).toBeGreaterThanOrEqual(0);
  expect(connection.openStreams).toBe(0);
});

test("our client opens no more streams than the server allows, and says when there is room", async () => {
  const held: Http2Stream[] = [];
  const full = Promise.withResolvers<void>();
  const { port } = await serve(
    (stream) => {
      held.push(stream);
      if (held.length === 2) full.resolve();
      return { body: "whole" };
    },
    { maxConcurrentStreams: 2 },
  );
  const socket = net.connect(port, "127.0.0.1");
  cleanups.push(() => socket.destroy());
  const room = Promise.withResolvers<void>();
  const connection = new Http2ClientConnection(socket, { onRoom: () => room.resolve() });
  await connection.ping();
  expect(connection.request(post, undefined, { body: "whole" })).toBeDefined();
  expect(connection.request(post, undefined, { body: "whole" })).toBeDefined();
  expect(connection.request(post, undefined, { body: "whole" })).toBeUndefined();
  await full.promise;
  held[0]?.respond(ok);
  await room.promise;
  expect(connection.hasRoom).toBe(true);
});

test("a lost connection resets what was open, and its pings fail", async () => {
  const port = await nodeServer((stream) => {
    stream.on("error", () => {});
    stream.session?.destroy();
  });
  const connection = await connectTo(port);
  await expect(ask(connection, post)).rejects.toThrow("reset");
  await expect(connection.ping()).rejects.toThrow("the connection is closed");
});

test("a GOAWAY refuses what the server has not seen, and finishes what it has", async () => {
  const port = await nodeServer((stream) => {
    stream.respond({ ":status": 200 });
    stream.session?.close();
    stream.end("done");
  });
  const connection = await connectTo(port);
  expect((await ask(connection, post)).body).toBe("done");
  expect(connection.request(post, undefined, { body: "whole" })).toBeUndefined();
});

test("a limit with a misspelt name is refused, not left out", () => {
  const limits: object = { maxConcurrentStream: 1 };
  expect(() => new Http2ServerConnection(new net.Socket(), { onRequest: () => echo }, { limits })).toThrow(
    /^there is no limit maxConcurrentStream, expected only maxConcurrentStreams, \w+/,
  );
});

test.each<[object, ErrorConstructor, RegExp]>([
  [{ prot: 1 }, TypeError, /^there is no option prot, expected only host, port, \w+/],
  [
    { keepalive: { stallTimeout: 1 } },
    TypeError,
    /^keepalive: there is no option stallTimeout, expected only \w.*, stallTimeoutMs$/,
  ],
  [{ limits: { resetburst: 1 } }, RangeError, /^there is no limit resetburst, expected only \w.*, resetBurst\b/],
])("connect with %j is refused before it connects", async (options, kind, message) => {
  // Nobody listens on port 1: a connection would be refused.
  const refused = connect({ host: "127.0.0.1", port: 1, ...options });
  await expect(refused).rejects.toBeInstanceOf(kind);
  await expect(refused).rejects.toThrow(message);
});

test("limits out of their range are all named", () => {
  const socket = new net.Socket();
  expect(
    () => new Http2ServerConnection(socket, { onRequest: () => echo }, { limits: { maxFrameBytes: 1, resetBurst: 0 } }),
  ).toThrow(
    "maxFrameBytes: expected a whole number from 16384 to 16777215, got 1; resetBurst: expected a whole number from 1 to 2147483647, got 0",
  );
});
