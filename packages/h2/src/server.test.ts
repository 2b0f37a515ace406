import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { afterEach, expect, test } from "vitest";
import { data, END_STREAM, frame, headers, settings } from "../test/memory-peer.ts";
import { connect } from "./client.ts";
import { ConnectionKeeper } from "./connection-keeper.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import { Http2ServerConnection } from "./server-connection.ts";
import { createServer, type Http2ServerOptions, type Http2Server } from "./server.ts";
import type { Http2Stream, StreamHandler } from "./stream.ts";

const ok = encodeHeaderBlock([[":status", "200"]]);
const echo: StreamHandler = { body: "whole", onBody: (stream, body) => stream.respond(ok, body) };
const post = encodeHeaderBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "a"],
]);

const servers: Http2Server[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function start(options: Partial<Http2ServerOptions> = {}): Promise<{ server: Http2Server; port: number }> {
  const server = createServer({ onRequest: () => echo, ...options });
  servers.push(server);
  return { server, port: await server.listen() };
}

/** A certificate for this test alone; its key never leaves the temporary folder. */
function selfSigned(): { key: Buffer; cert: Buffer } {
  const dir = mkdtempSync(path.join(os.tmpdir(), "dlrm-h2-"));
  try {
    execFileSync(
      "openssl",
      [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
        "-keyout",
        `${dir}/key`,
        "-out",
        `${dir}/cert`,
      ],
      { stdio: "ignore" },
    );
    return { key: readFileSync(`${dir}/key`), cert: readFileSync(`${dir}/cert`) };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("HTTP/1.1 and HTTP/2 share a port", async () => {
  const { port } = await start({ onHttp1Request: (_, response) => response.end("one") });
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("one");
  const connection = await connect({ host: "127.0.0.1", port });
  const body = await new Promise<Buffer>((resolve) =>
    connection.request(post, Buffer.from("two"), { body: "whole", onBody: (_, whole) => resolve(whole) }),
  );
  expect(body.toString()).toBe("two");
});

test("without a listener for it, HTTP/1.1 is told what the port speaks", async () => {
  const { port } = await start();
  const response = await fetch(`http://127.0.0.1:${port}/`);
  expect([response.status, await response.text()]).toEqual([505, "this port speaks HTTP/2\n"]);
});

test("TLS: ALPN chooses, and our client and node:http2 are both served", async () => {
  const { key, cert } = selfSigned();
  const { port } = await start({ tls: { key, cert } });
  const session = http2.connect(`https://localhost:${port}`, { ca: cert });
  const stream = session.request({ ":method": "POST" });
  stream.end("over tls");
  expect(Buffer.concat(await stream.toArray()).toString()).toBe("over tls");
  session.destroy();
  const connection = await connect({ host: "localhost", port, tls: { ca: cert } });
  const big = Buffer.alloc(500_000, "z");
  const body = await new Promise<Buffer>((resolve) =>
    connection.request(post, big, { body: "whole", onBody: (_, whole) => resolve(whole) }),
  );
  expect(body.equals(big)).toBe(true);
});

test("TLS with client certificates: the handler is reached with one, and nothing is without", async () => {
  const ours = selfSigned();
  const client = selfSigned();
  let requests = 0;
  const { server, port } = await start({
    tls: { ...ours, requestCert: true, rejectUnauthorized: true, ca: client.cert },
    onRequest: () => {
      requests += 1;
      return echo;
    },
  });
  const known = await connect({ host: "localhost", port, tls: { ca: ours.cert, ...client } });
  await known.ping();
  const body = await new Promise<Buffer>((resolve) =>
    known.request(post, Buffer.from("known"), { body: "whole", onBody: (_, whole) => resolve(whole) }),
  );
  expect(body.toString()).toBe("known");
  const closed = Promise.withResolvers<void>();
  // In TLS 1.3 a client hears of its refusal after it has connected.
  const unknown = await connect({ host: "localhost", port, tls: { ca: ours.cert }, onClose: () => closed.resolve() });
  unknown.request(post, Buffer.from("unknown"), { body: "whole" });
  await closed.promise;
  expect([requests, server.openConnections]).toEqual([1, 1]);
});

test("a preface that comes octet by octet is recognised", async () => {
  const { port } = await start();
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  for (const octet of Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n000000040000000000", "latin1")) {
    socket.write(Buffer.from([octet]));
    await new Promise(setImmediate);
  }
  const [first] = (await once(socket, "data")) as [Buffer];
  expect(first[3]).toBe(4);
  socket.destroy();
});

test("connecting to a port where nobody listens names it, with its cause", async () => {
  const { server, port } = await start();
  await server.close();
  await expect(connect({ host: "127.0.0.1", port })).rejects.toMatchObject({
    message: expect.stringContaining(`cannot connect to 127.0.0.1:${port}`),
    cause: { code: "ECONNREFUSED" },
  });
});

test("a port in use is the system's error", async () => {
  const { port } = await start();
  const second = createServer({ onRequest: () => echo });
  await expect(second.listen({ port })).rejects.toMatchObject({ code: "EADDRINUSE" });
});

test("drain resolves once what is open has been answered", async () => {
  const held = Promise.withResolvers<() => void>();
  const { server, port } = await start({
    onRequest: () => ({ body: "whole", onBody: (stream, body) => held.resolve(() => stream.respond(ok, body)) }),
  });
  const connection = await connect({ host: "127.0.0.1", port });
  const answer = new Promise<string>((resolve) =>
    connection.request(post, Buffer.from("x"), { body: "whole", onBody: (_, body) => resolve(body.toString()) }),
  );
  const respond = await held.promise;
  let drained = false;
  const draining = server.drain().then(() => (drained = true));
  await new Promise(setImmediate);
  expect(drained).toBe(false);
  respond();
  expect(await answer).toBe("x");
  await draining;
  expect(server.openConnections).toBe(0);
});

/** A keeper's connection to a peer of which we see what it is sent. */
async function kept(): Promise<{
  keeper: ConnectionKeeper;
  peer: net.Socket;
  closed: Promise<string | undefined>;
  server: net.Server;
}> {
  const keeper = new ConnectionKeeper({
    keepaliveIntervalMs: 1000,
    keepaliveTimeoutMs: 500,
    setupTimeoutMs: 300,
    stallTimeoutMs: 2000,
  });
  const closed = Promise.withResolvers<string | undefined>();
  const accepted = Promise.withResolvers<void>();
  const server = net.createServer((socket) => {
    const connection = new Http2ServerConnection(socket, {
      onRequest: () => echo,
      onClose: (error) => closed.resolve(error?.message),
    });
    keeper.add(connection, socket, 0);
    accepted.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const peer = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1");
  peer.on("error", () => {});
  await accepted.promise;
  return { keeper, peer, closed: closed.promise, server };
}

test("a peer that sends no SETTINGS is given up", async () => {
  const { keeper, peer, closed, server } = await kept();
  peer.resume();
  keeper.tick(299);
  keeper.tick(300);
  expect(await closed).toBe("SETTINGS_TIMEOUT: no SETTINGS within setupTimeoutMs (300)");
  server.close();
});

test("a silent peer is asked, and kept if it answers", async () => {
  const { keeper, peer, server } = await kept();
  const pings: Buffer[] = [];
  const pinged = Promise.withResolvers<void>();
  peer.on("data", (chunk: Buffer) => {
    for (let at = 0; at + 9 <= chunk.length; at += 9 + chunk.readUIntBE(at, 3)) {
      if (chunk[at + 3] !== 6) continue;
      pings.push(chunk.subarray(at + 9, at + 17));
      pinged.resolve();
    }
  });
  peer.write(
    Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from("000000040000000000", "hex")]),
  );
  // Our SETTINGS, then the acknowledgement of the peer's.
  while (peer.bytesRead < 60) await once(peer, "data");
  keeper.tick(10);
  keeper.tick(1010);
  await pinged.promise;
  expect(pings).toHaveLength(1);
  peer.destroy();
  server.close();
});

test("a peer that never shakes hands is given up", async () => {
  const { port } = await start({ tls: selfSigned(), keepalive: { setupTimeoutMs: 50 } });
  const peer = net.connect(port, "127.0.0.1").resume();
  await once(peer, "close");
  expect(peer.bytesRead).toBe(0);
});

test("a server that never shakes hands is given up", async () => {
  const silent = net.createServer((socket) => socket.resume().on("error", () => {}));
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as net.AddressInfo;
  await expect(connect({ host: "127.0.0.1", port, tls: {}, keepalive: { setupTimeoutMs: 50 } })).rejects.toThrow(
    `cannot connect to 127.0.0.1:${port}: no TLS handshake within setupTimeoutMs (50)`,
  );
  silent.close();
});

test("draining does not wait for a peer that has not shaken hands, and leaves one that has", async () => {
  const { key, cert } = selfSigned();
  const reached = Promise.withResolvers<Http2Stream>();
  const { server, port } = await start({
    tls: { key, cert },
    onRequest: (stream) => {
      reached.resolve(stream);
      return { body: "whole" };
    },
  });
  const connection = await connect({ host: "localhost", port, tls: { ca: cert } });
  const answered = new Promise<string>((resolve) => {
    connection.request(post, Buffer.from("x"), { body: "whole", onBody: (_, body) => resolve(body.toString()) });
  });
  const stream = await reached.promise;
  const peer = net.connect(port, "127.0.0.1").resume();
  const closed = once(peer, "close");
  await once(peer, "connect");
  // The server has accepted that peer when a later one has been served.
  const later = await connect({ host: "localhost", port, tls: { ca: cert } });
  await later.ping();
  const drained = server.drain();
  await closed;
  expect(peer.bytesRead).toBe(0);
  stream.respond(encodeHeaderBlock([[":status", "200"]]), Buffer.from("answered"));
  expect(await answered).toBe("answered");
  await drained;
  expect(server.openConnections).toBe(0);
  for (const each of [connection, later]) each.destroy();
});

test("a client connection can be told to give up connecting", async () => {
  await expect(
    connect({ host: "127.0.0.1", port: 1, signal: AbortSignal.abort(new Error("changed my mind")) }),
  ).rejects.toThrow("changed my mind");
});

/** A peer that has sent its settings, and reads what it is sent. */
async function setUp(peer: net.Socket): Promise<void> {
  peer.resume();
  peer.write(Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1"));
  while (peer.bytesRead < 60) await once(peer, "data");
}

test("a peer that does not answer a PING is given up, and the owner is told why", async () => {
  const { keeper, peer, closed, server } = await kept();
  await setUp(peer);
  keeper.tick(10);
  keeper.tick(1010);
  keeper.tick(1509);
  // The test's peer reads but does not answer.
  keeper.tick(1510);
  expect(await closed).toBe("NO_ERROR: no answer to a PING within keepaliveTimeoutMs (500)");
  server.close();
});

test("a peer that grants no window for what it asked for is given up, though it answers PINGs", async () => {
  const { keeper, peer, closed, server } = await kept();
  await setUp(peer);
  const bytesBefore = peer.bytesRead;
  peer.write(
    Buffer.concat([
      settings([4, 0]),
      headers(1, 0, post),
      data(1, END_STREAM, Buffer.from("x")),
      frame(6, 0, 0, Buffer.alloc(8)),
    ]),
  );
  // The acknowledgement of the settings, the head of the answer (one octet), and the answer to the PING.
  while (peer.bytesRead < bytesBefore + 9 + 10 + 17) await once(peer, "data");
  keeper.tick(10);
  keeper.tick(900);
  keeper.tick(1300);
  // A sign of life that came between.
  peer.write(frame(6, 1, 0, Buffer.from("keepaliv")));
  peer.write(frame(6, 0, 0, Buffer.alloc(8)));
  while (peer.bytesRead < bytesBefore + 9 + 10 + 17 + 17 + 17) await once(peer, "data");
  keeper.tick(2009);
  keeper.tick(2900);
  expect(await closed).toBe("ENHANCE_YOUR_CALM: nothing was read for stallTimeoutMs (2000)");
  server.close();
});

const SERVER_OPTIONS =
  "expected only onRequest, onHttp1Request, tls, limits, keepalive, maxConnections, onConnectionError, onHandlerError";

test.each<[object, string]>([
  [{}, "onRequest: expected a function, got undefined"],
  [
    { onrequest: () => echo, maxConnection: 1 },
    `there is no option onrequest, ${SERVER_OPTIONS}; there is no option maxConnection, ${SERVER_OPTIONS}; ` +
      "onRequest: expected a function, got undefined",
  ],
  [
    { onRequest: () => echo, keepalive: { keepaliveInterval: 1 } },
    "keepalive: there is no option keepaliveInterval, " +
      "expected only keepaliveIntervalMs, keepaliveTimeoutMs, setupTimeoutMs, stallTimeoutMs",
  ],
])("a server with the options %j is refused", (options, message) => {
  expect(() => createServer(options as Http2ServerOptions)).toThrow(new TypeError(message));
});

test("a server does not listen with an option that there is not", async () => {
  const server = createServer({ onRequest: () => echo });
  const options: object = { hots: "0.0.0.0" };
  await expect(server.listen(options)).rejects.toThrow(
    new TypeError("there is no option hots, expected only host, port, reusePort, backlog"),
  );
});
