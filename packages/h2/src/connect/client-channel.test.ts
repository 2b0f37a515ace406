import { once } from "node:events";
import net from "node:net";
import { afterEach, expect, test } from "vitest";
import { framesIn, request } from "../../test/memory-peer.ts";
import { ClientChannel } from "./client-channel.ts";

const cleanups: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
});

/** A server that accepts and says nothing. */
async function silentServer(): Promise<{ listener: net.Server; port: number }> {
  const listener = net.createServer((socket) => cleanups.push(() => socket.destroy())).listen(0, "127.0.0.1");
  cleanups.push(() => listener.close());
  await once(listener, "listening");
  return { listener, port: (listener.address() as net.AddressInfo).port };
}

const handler = { body: "whole" } as const;
const call = { context: undefined, endStream: true };

test("a channel that is closed while it connects gives up at once", async () => {
  const { listener, port } = await silentServer();
  // It waits for the server's part of the handshake.
  const channel = new ClientChannel({ host: "127.0.0.1", port, tls: {} });
  const opening = channel.open(request, handler, call);
  const [socket] = (await once(listener, "connection")) as [net.Socket];
  socket.resume();
  channel.close();
  await expect(opening).rejects.toThrow("the channel is closed");
  await once(socket, "close");
});

test("a channel that is closed once it has connected, before it has sent the call, does not send it", async () => {
  const { listener, port } = await silentServer();
  const channel: ClientChannel = new ClientChannel({
    host: "127.0.0.1",
    port,
    // The clock is read as soon as the connection is made.
    nowMs() {
      channel.close();
      return 0;
    },
  });
  const opening = channel.open(request, handler, call);
  const [socket] = (await once(listener, "connection")) as [net.Socket];
  const received: Buffer[] = [];
  socket.on("data", (piece: Buffer) => received.push(piece));
  socket.on("end", () => socket.end());
  await expect(opening).rejects.toThrow("the channel is closed");
  await once(socket, "close");
  const types = framesIn(Buffer.concat(received)).map((each) => each.type);
  expect(types).not.toContain(1);
  expect(types.at(-1)).toBe(7);
});
