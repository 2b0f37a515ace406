import { EventEmitter } from "node:events";
import { performance } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { MessageChannel, type Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { makeBatch } from "../test/open-devices.ts";
import { CallRing } from "./call-ring.ts";
import { ThreadDevice } from "./thread-device.ts";
import type { CompiledMessage } from "./thread-protocol.ts";

// Clock and thread are in the test's hands: time stands still unless the test moves it.
let nowMs: number;
beforeEach(() => {
  nowMs = 1000;
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function pass(ms: number): void {
  nowMs += ms;
  vi.advanceTimersByTime(ms);
}

/** A device that gives up after 100 ms, or 1,000 ms of a compile; `thread` is the thread's side. */
function openFake() {
  const worker = Object.assign(new EventEmitter(), { terminate: async () => 1, unref: () => {} });
  const { port1: letters } = new MessageChannel();
  const ring = CallRing.allocate(4, 3);
  const device = new ThreadDevice({
    kind: "simulated",
    buckets: [1],
    maxQueuedCalls: 4,
    callTimeoutMs: 100,
    compileTimeoutMs: 1000,
    worker: worker as unknown as Worker,
    letters,
    ready: {
      name: "a fake",
      platform: "sim",
      inputs: [
        { name: "dense", width: [4] },
        { name: "pooled", width: [6] },
      ],
      outputs: [{ name: "scores", width: [] }],
      warmUp: { warmed: [1], skipped: [], elapsedMs: 0 },
      precision: { name: "float32", quantizedWeights: 0 },
      memory: { kind: "host" },
      inputTransfers: undefined,
      maxInFlight: 1,
      ring: { buffer: ring.buffer, capacity: ring.capacity },
    },
  });
  const thread = new CallRing(ring.buffer, 3, ring.capacity);
  const sayCompiled = (bucket: number): void => {
    const message: CompiledMessage = { type: "compiled", bucket };
    worker.emit("message", message);
  };
  return { device, thread, worker, sayCompiled };
}

/** What became of a promise: "waits" until it is settled. */
function watch(promise: Promise<unknown>): { outcome: string } {
  const seen = { outcome: "waits" };
  promise.then(
    () => (seen.outcome = "done"),
    (error: Error) => (seen.outcome = error.message),
  );
  return seen;
}

const GIVEN_UP = "a fake ended no call for 100 ms and was given up";

function executeOne(device: ThreadDevice): { outcome: string } {
  const batch = makeBatch(1);
  return watch(device.execute(1, batch.inputs, batch.outputs));
}

test("a compile may take longer than a call, and what wedges after it is given up in time", async () => {
  const { device, thread, sayCompiled } = openFake();
  const compile = watch(device.compile(undefined, 2));
  const call = executeOne(device);
  thread.announceCompile();
  for (let rest = 6; rest > 0; rest--) pass(100);
  await nextTurn();
  expect([compile.outcome, call.outcome]).toEqual(["waits", "waits"]);
  thread.announceCompile();
  sayCompiled(2);
  pass(99);
  await nextTurn();
  expect([compile.outcome, call.outcome]).toEqual(["done", "waits"]);
  pass(1);
  await nextTurn();
  expect(call.outcome).toBe(GIVEN_UP);
});

test("a compile that stands behind a call that never ends doesn't put the end off", async () => {
  const { device } = openFake();
  const call = executeOne(device);
  const compile = watch(device.compile(undefined, 2));
  pass(100);
  await nextTurn();
  expect([call.outcome, compile.outcome]).toEqual([GIVEN_UP, GIVEN_UP]);
});

test("a compile that never ends is given up, too, where calls wait for it", async () => {
  const { device, thread } = openFake();
  const compile = watch(device.compile(undefined, 2));
  const call = executeOne(device);
  thread.announceCompile();
  // The watchdog sees the compile when it looks first.
  for (let rest = 10; rest > 0; rest--) pass(100);
  await nextTurn();
  expect(call.outcome).toBe("waits");
  pass(100);
  await nextTurn();
  const message = "a fake ended no call for 1000 ms and was given up";
  expect([call.outcome, compile.outcome]).toEqual([message, message]);
});

test("a compile that never ends is given up where nothing waits for it but its caller", async () => {
  const { device, thread } = openFake();
  const compile = watch(device.compile(undefined, 2));
  thread.announceCompile();
  const closed = watch(device.close());
  for (let rest = 10; rest > 0; rest--) pass(100);
  await nextTurn();
  expect([compile.outcome, closed.outcome]).toEqual(["waits", "waits"]);
  pass(100);
  await nextTurn();
  expect(compile.outcome).toBe("a fake ended no call for 1000 ms and was given up");
  expect(closed.outcome).toBe("done");
});

test("calls of before do not count against a compile that begins when all has ended", async () => {
  const { device, thread, sayCompiled } = openFake();
  const first = watch(device.compile(undefined, 2));
  thread.announceCompile();
  thread.announceCompile();
  sayCompiled(2);
  pass(5000);
  await nextTurn();
  const second = watch(device.compile(undefined, 4));
  thread.announceCompile();
  for (let rest = 10; rest > 0; rest--) pass(100);
  thread.announceCompile();
  sayCompiled(4);
  await nextTurn();
  expect([first.outcome, second.outcome]).toEqual(["done", "done"]);
});

test("news of a compile that comes after the device was lost is no news", async () => {
  const { device, worker, sayCompiled } = openFake();
  const compile = watch(device.compile(undefined, 2));
  worker.emit("exit", 1);
  expect(() => sayCompiled(2)).not.toThrow();
  await nextTurn();
  expect(compile.outcome).toBe("the thread of a fake ended with code 1");
  expect(device.buckets).toEqual([1]);
});
