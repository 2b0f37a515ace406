import { once } from "node:events";
import net from "node:net";
import { afterEach, expect, test } from "vitest";
import { data, END_STREAM, frame, headers, PREFACE, request, settings } from "../test/memory-peer.ts";
import { connect } from "./client.ts";
import { lendReadsOf } from "./lent-reads.ts";
import { createServer, type Http2Server, type Http2ServerOptions } from "./server.ts";
import { Http2ServerConnection } from "./server-connection.ts";
import type { StreamHandler } from "./stream.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(options: Http2ServerOptions): Promise<{ server: Http2Server; port: number }> {
  const server = createServer(options);
  cleanups.push(() => server.close());
  return { server, port: await server.listen() };
}

async function dial(port: number): Promise<net.Socket> {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => {});
  cleanups.push(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

test.each<["whole" | "pieces", boolean]>([
  ["whole", false],
  ["whole", true],
  ["pieces", false],
  ["pieces", true],
])("bodies handed over %s, borrowed: %s, are what was sent, and those that are kept stay so", async (kind, borrows) => {
  const kept: Buffer[] = [];
  const texts: string[] = [];
  const take = (body: Buffer): void => {
    kept.push(body);
    texts.push(body.toString());
  };
  const done = Promise.withResolvers<void>();
  const end = (): void => {
    if (texts.length === 20) done.resolve();
  };
  const handler: StreamHandler = {
    body: kind,
    borrowsBody: borrows,
    onBody(_, body) {
      take(body);
      end();
    },
    onData: (_, piece) => take(piece),
    onEnd: end,
  };
  const { port } = await serve({ onRequest: () => handler });
  const socket = await dial(port);
  socket.write(Buffer.concat([PREFACE, settings()]));
  const expected = Array.from({ length: 20 }, (_, index) => `the body of request ${index}`);
  for (const [index, text] of expected.entries()) {
    socket.write(Buffer.concat([headers(2 * index + 1, 0), data(2 * index + 1, END_STREAM, Buffer.from(text))]));
    await new Promise(setImmediate);
  }
  await done.promise;
  expect(texts).toEqual(expected);
  // What is borrowed stands where all reads go; what is not has memory of its own.
  const stillThere = kept.filter((each, index) => each.toString() === expected[index]).length;
  if (borrows) expect(new Set(kept.map((each) => each.buffer)).size).toBeLessThanOrEqual(2);
  else expect(stillThere).toBe(20);
});

test("a whole body that is lent is where it was read, or put together, between its ends", async () => {
  const texts: string[] = [];
  const done = Promise.withResolvers<void>();
  const handler: StreamHandler = {
    body: "whole",
    borrowsBody: true,
    onBody: () => texts.push("onBody was called"),
    onLentBody(_, bytes, start, end) {
      texts.push(bytes.toString("latin1", start, end));
      if (texts.length === 3) done.resolve();
    },
  };
  const { port } = await serve({ onRequest: () => handler });
  const socket = await dial(port);
  socket.write(
    Buffer.concat([
      PREFACE,
      settings(),
      ...[headers(1, 0), data(1, END_STREAM, Buffer.from("in one piece"))],
      ...[headers(3, 0), data(3, 0, Buffer.from("in ")), data(3, END_STREAM, Buffer.from("two pieces"))],
      headers(5, END_STREAM),
    ]),
  );
  await done.promise;
  expect(texts).toEqual(["in one piece", "in two pieces", ""]);
});

test("what a read cuts off is kept, whatever the next one writes over it", () => {
  const bodies: string[] = [];
  const paths: (string | undefined)[] = [];
  const socket = new net.Socket();
  cleanups.push(() => socket.destroy());
  const connection = new Http2ServerConnection(
    socket,
    {
      onRequest(stream) {
        paths.push(stream.headers?.get(":path"));
        return { body: "whole", onBody: (_, body) => bodies.push(body.toString()) };
      },
    },
    { readsAreLent: true },
  );
  const bytes = Buffer.concat([
    PREFACE,
    settings(),
    frame(1, 0, 1, request.subarray(0, 2)),
    frame(9, 0, 1, request.subarray(2, 4)),
    frame(9, 4, 1, request.subarray(4)),
    data(1, 0, Buffer.from("one ")),
    data(1, END_STREAM, Buffer.from("two")),
  ]);
  const shared = Buffer.alloc(bytes.length);
  for (let at = 0; at < bytes.length; at += 7) {
    const end = bytes.copy(shared, 0, at, at + 7);
    connection.read(shared, end);
    shared.fill(0xdd);
  }
  expect([paths, bodies]).toEqual([["/"], ["one two"]]);
  connection.destroy();
});

test("connections whose reads are lent count, and close, like any other", async () => {
  const { server, port } = await serve({ onRequest: () => ({ body: "whole" }), maxConnections: 1 });
  const first = await dial(port);
  first.write(Buffer.concat([PREFACE, settings()]));
  await once(first, "data");
  const second = await dial(port);
  await once(second, "close");
  expect(server.openConnections).toBe(1);
  first.destroy();
  while (server.openConnections > 0) await new Promise(setImmediate);
  const third = await dial(port);
  third.write(Buffer.concat([PREFACE, settings()]));
  await once(third, "data");
  const ended = once(third, "close");
  third.resume();
  await server.close();
  await ended;
  expect(server.openConnections).toBe(0);
});

test("destroying the socket that was accepted ends the connection that took its place", async () => {
  const accepted = Promise.withResolvers<net.Socket>();
  const listener = net.createServer((socket) => accepted.resolve(socket)).listen(0, "127.0.0.1");
  cleanups.push(() => listener.close());
  await once(listener, "listening");
  const { server } = await serve({ onRequest: () => ({ body: "whole" }) });
  const client = await connect({ host: "127.0.0.1", port: (listener.address() as net.AddressInfo).port });
  const socket = await accepted.promise;
  server.accept(socket);
  await client.ping();
  socket.destroy();
  while (!client.isClosed) await new Promise(setImmediate);
  expect(server.openConnections).toBe(0);
});

test("a socket that is not known, or has been read from or written to, stays as it is", async () => {
  class Other extends net.Socket {}
  expect(lendReadsOf(new Other(), () => {})).toBeUndefined();
  expect(lendReadsOf(new net.Socket(), () => {})).toBeUndefined();
  const listener = net.createServer().listen(0, "127.0.0.1");
  cleanups.push(() => listener.close());
  await once(listener, "listening");
  const client = net.connect((listener.address() as net.AddressInfo).port, "127.0.0.1");
  cleanups.push(() => client.destroy());
  const [socket] = (await once(listener, "connection")) as [net.Socket];
  cleanups.push(() => socket.destroy());
  socket.pause();
  socket.unshift(Buffer.from("read before"));
  expect(lendReadsOf(socket, () => {})).toBeUndefined();
  expect(socket.read()?.toString()).toBe("read before");
});
