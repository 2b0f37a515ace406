import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";
import { expect, test } from "vitest";
import { allocateTensor } from "./allocate-tensor.ts";
import type { Backend } from "./backend.ts";
import { CALL_CANCELLED, CALL_DONE, CALL_FAILED, CallRing } from "./call-ring.ts";
import { serveCalls } from "./serve-calls.ts";

const BUCKETS: readonly number[] = [1, 2];

/** A device that takes `depth` calls at a time and writes down what it is told. Fails to begin, or to end, calls of these x. */
function recordingBackend(depth: number, failing: { begin?: number; end?: number } = {}) {
  const told: string[] = [];
  const running: { x: Float32Array; y: Float32Array }[] = [];
  const backend: Backend<Float32Array> = {
    name: "recording device",
    platform: "cpu",
    inputs: [{ name: "x", width: [] }],
    outputs: [{ name: "y", width: [] }],
    precision: { name: "float32", quantizedWeights: 0 },
    memory: { kind: "host" },
    addBucket: () => {},
    wrap: (_spec, _bucket, view) => view,
    run: () => {
      throw new Error("the pipeline is there");
    },
    warm: () => {},
    pipeline: {
      depth,
      begin: (bucket, [x], [y]) => {
        told.push(`begin ${x![0]} (${bucket})`);
        if (x![0] === failing.begin) throw new Error("can't begin");
        running.push({ x: x!, y: y! });
      },
      end: (bucket) => {
        const { x, y } = running.shift()!;
        told.push(`end ${x[0]} (${bucket})`);
        if (x[0] === failing.end) throw new Error("can't end");
        for (let i = 0; i < bucket; i++) y[i] = 10 * x[i]!;
      },
    },
    close: async () => {},
  };
  return { backend: backend as Backend<unknown>, told };
}

/** Calls with x = 1, 2, … of these buckets, all made before the thread looks, and the wish to close. */
async function serve(
  depth: number,
  buckets: readonly number[],
  failing?: { begin?: number; end?: number },
  cancel = -1,
) {
  const { port1, port2 } = new MessageChannel();
  const ring = CallRing.allocate(8, 2);
  const memory = allocateTensor(4 * buckets.length);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
  port1.postMessage({ type: "buffer", id: 1, buffer: memory.buffer });
  ring.announceLetter();
  for (const [call, bucket] of buckets.entries()) {
    const at = memory.byteOffset / 4 + 4 * call;
    memory[4 * call] = call + 1;
    ring.setTensor(call, 0, 1, at);
    ring.setTensor(call, 1, 1, at + 2);
    ring.submit(BUCKETS.indexOf(bucket));
  }
  if (cancel >= 0) ring.cancel(cancel);
  ring.announceClosing();
  const { backend, told } = recordingBackend(depth, failing);
  await serveCalls(backend, ring, BUCKETS, port2);
  const errors = [];
  for (let letter; (letter = receiveMessageOnPort(port1));)
    errors.push((letter.message as { error: Error }).error.message);
  port1.close();
  const states = buckets.map((_, call) => ring.stateOf(call));
  return { told, errors, states, completed: ring.completed, y: buckets.map((_, call) => memory[4 * call + 2]) };
}

test("a pipeline begins the next calls before it ends the oldest, and ends them in order", async () => {
  const { told, states, completed, y } = await serve(2, [1, 2, 1, 1]);
  expect(told).toEqual([
    "begin 1 (1)",
    "begin 2 (2)",
    "end 1 (1)",
    "begin 3 (1)",
    "end 2 (2)",
    "begin 4 (1)",
    "end 3 (1)",
    "end 4 (1)",
  ]);
  expect(states).toEqual([CALL_DONE, CALL_DONE, CALL_DONE, CALL_DONE]);
  expect(completed).toBe(4);
  expect(y).toEqual([10, 20, 30, 40]);
});

test("a pipeline of one ends each call before the next", async () => {
  const { told } = await serve(1, [1, 1]);
  expect(told).toEqual(["begin 1 (1)", "end 1 (1)", "begin 2 (1)", "end 2 (1)"]);
});

test("why calls failed is told in the order of the calls, whichever half failed first", async () => {
  const { told, errors, states, completed } = await serve(2, [1, 1, 1], { begin: 2, end: 1 });
  expect(told).toEqual(["begin 1 (1)", "begin 2 (1)", "end 1 (1)", "begin 3 (1)", "end 3 (1)"]);
  expect(errors).toEqual(["recording device failed: can't end", "recording device failed: can't begin"]);
  expect(states).toEqual([CALL_FAILED, CALL_FAILED, CALL_DONE]);
  expect(completed).toBe(3);
});

test("a cancelled call is passed over, in its turn", async () => {
  const { told, states, completed } = await serve(3, [1, 1, 1], undefined, 1);
  expect(told).toEqual(["begin 1 (1)", "begin 3 (1)", "end 1 (1)", "end 3 (1)"]);
  expect(states).toEqual([CALL_DONE, CALL_CANCELLED, CALL_DONE]);
  expect(completed).toBe(3);
});

test("says while it compiles that it does, and no longer once it tells of it", async () => {
  const { port1, port2 } = new MessageChannel();
  const ring = CallRing.allocate(1, 2);
  const { backend } = recordingBackend(1);
  const seen: unknown[] = [];
  const watched = { ...backend, addBucket: (bucket: number) => void seen.push([bucket, ring.compiles]) };
  for (const bucket of [4, 8]) {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
    port1.postMessage({ type: "compile", bucket, program: undefined });
    ring.announceLetter();
  }
  ring.announceClosing();
  await serveCalls(watched, ring, BUCKETS, port2, ({ bucket }) => seen.push([bucket, ring.compiles]));
  port1.close();
  expect(seen).toEqual([
    [4, 1],
    [4, 2],
    [8, 3],
    [8, 4],
  ]);
});
