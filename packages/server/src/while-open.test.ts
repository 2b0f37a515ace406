import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { HealthState } from "./health-state.ts";
import { whileOpen } from "./while-open.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("requests of a long stream are forgotten when they have been dealt with", async () => {
  const given: WeakRef<object>[] = [];
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const requests = (async function* () {
    for (let count = 0; count < 100; count++) {
      const request = {};
      given.push(new WeakRef(request));
      yield request;
    }
    await ended;
  })();
  const stream = whileOpen(requests, new HealthState(), new AbortController().signal);
  for (let count = 0; count < 100; count++) await stream.next();
  const last = stream.next();
  // What a WeakRef gave or was made of lives until the end of the turn.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  // The last ones may still be in a frame that waits.
  expect(given.filter((request) => request.deref() !== undefined).length).toBeLessThanOrEqual(2);
  end();
  expect(await last).toEqual({ done: true, value: undefined });
});

test.each(["closes", "was closed"])("nobody is waited for when the server %s", async (when) => {
  const state = new HealthState();
  if (when === "was closed") state.advance("closed");
  const requests = (async function* () {
    yield 1;
    await new Promise(() => {});
  })();
  const stream = whileOpen(requests, state, new AbortController().signal);
  if (when === "closes") {
    expect(await stream.next()).toEqual({ done: false, value: 1 });
    queueMicrotask(() => state.advance("closed"));
  }
  await expect(stream.next()).rejects.toMatchObject({
    code: Code.Unavailable,
    rawMessage: "the server is shutting down",
  });
});

test("an error of the requests is passed on", async () => {
  const requests = (async function* () {
    yield 1;
    throw new Error("broken");
  })();
  const stream = whileOpen(requests, new HealthState(), new AbortController().signal);
  await stream.next();
  await expect(stream.next()).rejects.toThrow("broken");
});
