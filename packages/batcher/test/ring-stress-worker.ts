import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parentPort, workerData } from "node:worker_threads";
import type { RingBatch } from "@dlrm/batcher/shared";
import { BatcherError, RingConsumer, RingProducer } from "@dlrm/batcher/shared";
import type { ConsumerReport, ProducerReport, STRESS_SCHEMA, StressTask } from "./ring-stress.ts";
import { stressOutput } from "./ring-stress.ts";

// Not by an option of the process, so that nobody has to know of it.
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const task = workerData as StressTask;
parentPort?.postMessage(await (task.role === "consumer" ? consume(task) : produce(task)));

async function consume({ ring, seed, maxInFlightBatches }: StressTask): Promise<ConsumerReport> {
  const consumer = new RingConsumer(ring, { maxInFlightBatches });
  const run = ({ inputs, outputs, size }: RingBatch<typeof STRESS_SCHEMA>): void => {
    for (let row = 0; row < size; row += 1) {
      outputs.y[row] = stressOutput(inputs.key[row] as number, inputs.x, row);
    }
  };
  if (maxInFlightBatches === 1) {
    consumer.serveBlocking(run);
  } else {
    const random = randomSource(seed);
    await consumer.serve(async (batch) => {
      for (let turns = Math.floor(random() * 4); turns > 0; turns -= 1) {
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
      }
      run(batch);
    });
  }
  return { role: "consumer", stats: consumer.stats() };
}

function randomSource(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 0) / 2 ** 32;
  };
}

async function produce({
  ring,
  items,
  seed,
  outstanding,
  maxSize,
  cancelShare,
  expireShare,
}: StressTask): Promise<ProducerReport> {
  const producer = new RingProducer(ring);
  const random = randomSource(seed);
  const outcomes: Record<string, number> = {};
  let wrong = 0;
  let settled = 0;
  let next = 0;
  const heapBytes: number[] = [];
  const lane = async (): Promise<void> => {
    while (next < items) {
      const item = next;
      next += 1;
      if (item % Math.ceil(items / 8) === 0) {
        collectGarbage();
        heapBytes.push(process.memoryUsage().heapUsed);
      }
      const size = 1 + Math.floor(random() * maxSize);
      const key = (Math.imul(seed, 31) + item) | 0;
      const cancels = random() < cancelShare;
      const controller = cancels ? new AbortController() : undefined;
      const result = producer.submit(
        size,
        ({ inputs }, row) => {
          for (let i = row; i < row + size; i += 1) {
            inputs.key[i] = key;
            for (let j = 0; j < 4; j += 1) {
              inputs.x[i * 4 + j] = (key ^ (i - row)) + j;
            }
          }
        },
        ({ inputs, outputs }, row) => {
          for (let i = row; i < row + size; i += 1) {
            const expected = Array.from({ length: 4 }, (_, j) => (key ^ (i - row)) + j);
            if (outputs.y[i] !== stressOutput(key, expected, 0) || inputs.key[i] !== key) {
              return false;
            }
          }
          return true;
        },
        { signal: controller?.signal, ...(random() < expireShare ? { deadlineMs: random() * 2 } : {}) },
      );
      if (controller !== undefined) {
        if (random() < 0.5) {
          controller.abort();
        } else {
          queueMicrotask(() => controller.abort());
        }
      }
      try {
        const right = await result;
        wrong += right ? 0 : 1;
        outcomes.ok = (outcomes.ok ?? 0) + 1;
      } catch (error) {
        const code = error instanceof BatcherError ? error.code : String(error);
        outcomes[code] = (outcomes[code] ?? 0) + 1;
      }
      settled += 1;
    }
  };
  await Promise.all(Array.from({ length: outstanding }, lane));
  const stats = producer.stats();
  producer.leave();
  return { role: "producer", outcomes, wrong, settled, heapBytes, stats };
}
