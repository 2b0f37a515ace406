// What any runtime must do, on the built package. Plain JavaScript: it runs as it is in browsers too.
import { Batcher } from "../../dist/index.js";
import { createSharedRing, drainRing, RingConsumer, RingProducer } from "../../dist/shared/index.js";

function expectEqual(what, actual, expected) {
  const [a, e] = [actual, expected].map((value) => JSON.stringify(value));
  if (a !== e) {
    throw new Error(`${what}: expected ${e}, received ${a}`);
  }
}

const codeOf = (promise) =>
  promise.then(
    () => "ok",
    ({ code }) => code,
  );

async function inOneThread() {
  const sizes = [];
  const batcher = new Batcher({
    maxBatchSize: 100,
    run: async ({ items }) => {
      sizes.push(items.length);
      return items.map((item) => item * 2);
    },
  });
  const keys = Array.from({ length: 250 }, (_, i) => i);
  expectEqual(
    "results",
    await Promise.all(keys.map((key) => batcher.submit(key))),
    keys.map((key) => key * 2),
  );
  expectEqual("batch sizes", sizes, [100, 100, 50]);

  const hung = new Batcher({ maxEnqueuedItems: 1, maxBatchSize: 1, run: () => new Promise(() => {}) });
  const controller = new AbortController();
  const cancelled = codeOf(hung.submit(1, { signal: controller.signal }));
  await Promise.resolve().then(() => {});
  const expired = codeOf(hung.submit(2, { deadlineMs: 5 }));
  const refused = codeOf(hung.submit(3));
  controller.abort();
  expectEqual("outcomes", await Promise.all([cancelled, expired, refused]), [
    "cancelled",
    "deadline_exceeded",
    "overloaded",
  ]);
  hung.close();
}

async function acrossThreads() {
  const ring = createSharedRing({
    schema: {
      inputs: { x: { type: "float32", shape: [] } },
      outputs: { y: { type: "float32", shape: [] } },
    },
    maxBatchSize: 8,
    slots: 2,
  });
  const served = new RingConsumer(ring).serve(({ inputs, outputs, size }) => {
    for (let row = 0; row < size; row += 1) {
      outputs.y[row] = inputs.x[row] + 1;
    }
  });
  const producer = new RingProducer(ring);
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      producer.submit(
        1,
        ({ inputs }, row) => {
          inputs.x[row] = i;
        },
        ({ outputs }, row) => outputs.y[row],
      ),
    ),
  );
  expectEqual(
    "ring results",
    results,
    Array.from({ length: 50 }, (_, i) => i + 1),
  );
  drainRing(ring);
  await served;
  producer.leave();
}

/** Resolves with what was checked. */
export async function check() {
  await inOneThread();
  if (typeof SharedArrayBuffer === "undefined" || Atomics.waitAsync === undefined) {
    return "in one thread; no SharedArrayBuffer or Atomics.waitAsync here";
  }
  await acrossThreads();
  return "in one thread, shared ring";
}
