import { once } from "node:events";
import http2 from "node:http2";
import { connect } from "node:net";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { expect, test, vi } from "vitest";
import { shutDown } from "./shut-down.ts";

/** A server of grpc-js, and Node's server that is below it. */
async function listen(): Promise<{ server: Server; below: http2.Http2Server; port: number }> {
  const createServer = vi.spyOn(http2, "createServer");
  const server = new Server();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  const [created] = createServer.mock.results;
  createServer.mockRestore();
  return { server, below: created?.value as http2.Http2Server, port };
}

const NEVER_MS = 2 ** 31 - 1;

test("a client that goes at that moment does not hold it up", async () => {
  const { server, below, port } = await listen();
  const opened = once(below, "session") as Promise<[http2.ServerHttp2Session]>;
  const client = http2.connect(`http://127.0.0.1:${port}`);
  client.on("error", () => undefined);
  const [session] = await opened;
  const gone = once(session, "goaway");
  client.goaway(http2.constants.NGHTTP2_CANCEL);
  await gone;
  // Else the client would still be there, or have gone already.
  expect([session.destroyed, session.closed, below.listening]).toEqual([true, false, true]);
  await shutDown(server, NEVER_MS);
  expect(below.listening).toBe(false);
  client.destroy();
});

test("a client that does not close its side is left behind when the time is over", async () => {
  const { server, port } = await listen();
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const emptySettings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
  socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from(emptySettings)]));
  await once(socket, "data");
  await shutDown(server, 0);
  expect(socket.writable).toBe(true);
  socket.destroy();
});
