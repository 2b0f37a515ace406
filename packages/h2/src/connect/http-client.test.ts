import { Code } from "@connectrpc/connect";
import { afterEach, expect, test } from "vitest";
import { createServer } from "../server.ts";
import type { Http2Stream } from "../stream.ts";
import { ErrorCode } from "../protocol.ts";
import { ClientChannel } from "./client-channel.ts";
import { createHttpClient, createUnaryHttpClient } from "./http-client.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Calls `onOpened` when a stream is open and whoever asked for it has not been told yet. */
class WatchedChannel extends ClientChannel {
  onOpened: () => void = () => {};

  override async open(...given: Parameters<ClientChannel["open"]>): Promise<Http2Stream> {
    const stream = await super.open(...given);
    this.onOpened();
    return stream;
  }
}

test.each([
  ["unary", createUnaryHttpClient],
  ["streaming", createHttpClient],
])("%s: a call that is given up as soon as its stream is open ends, at the server too", async (_, createClient) => {
  const reset = Promise.withResolvers<number>();
  const server = createServer({
    onRequest: () => ({ body: "whole", onReset: (_stream, code) => reset.resolve(code) }),
  });
  cleanups.push(() => server.close());
  const port = await server.listen();
  const channel = new WatchedChannel({ host: "127.0.0.1", port });
  cleanups.push(() => channel.close());
  const abort = new AbortController();
  channel.onOpened = () => abort.abort();
  const answer = createClient(channel)({
    url: `http://127.0.0.1:${port}/`,
    method: "POST",
    header: new Headers(),
    signal: abort.signal,
  });
  await expect(answer).rejects.toMatchObject({ code: Code.Canceled });
  expect(await reset.promise).toBe(ErrorCode.CANCEL);
});

test.each([
  ["before the call", 0],
  ["while it connects", 1],
])("a call on a channel that is closed %s is UNAVAILABLE", async (_, calls) => {
  const server = createServer({ onRequest: () => ({ body: "whole" }) });
  cleanups.push(() => server.close());
  const port = await server.listen();
  const channel = new ClientChannel({ host: "127.0.0.1", port });
  const call = (): Promise<unknown> =>
    createUnaryHttpClient(channel)({ url: `http://127.0.0.1:${port}/`, method: "POST", header: new Headers() });
  const before = Array.from({ length: calls }, call);
  channel.close();
  for (const answer of [...before, call()]) {
    await expect(answer).rejects.toMatchObject({
      code: Code.Unavailable,
      message: expect.stringContaining("the channel is closed") as string,
    });
  }
});
