import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { RingPortOptions } from "@dlrm/batcher/shared";
import { createSharedRing, drainRing, FULL, RingPort } from "@dlrm/batcher/shared";
import { median } from "./overhead.ts";

/** One float in, one float out: what is left is the ring's own cost. */
export const COST_SCHEMA = {
  inputs: { x: { type: "float32", shape: [1] } },
  outputs: { y: { type: "float32", shape: [1] } },
} as const;

export const SLOW_RUN_MICROS = 350;
/** A slow run takes that much longer: so many times fewer of them. */
const SLOW_RUN_SHARE = 20;
const PARTS = 40;
/** What is compared is measured in turns. */
const ROUNDS = 3;
/** Each measurement has threads of its own: until the engine has optimized what they run, and its compiler needs no core. */
const WARMUP_MS = 1000;

export interface SharedCost {
  /** CPU microseconds an item, both threads together, with one item at a time. */
  readonly aloneMicros: number;
  /** The same where both threads sleep each time, as they do when items are far apart. */
  readonly aloneAsleepMicros: number;
  /** As `aloneMicros`, with a run that sleeps for `SLOW_RUN_MICROS`, as one that waits for a device. */
  readonly aloneSlowRunMicros: number;
  /** The same where neither thread ever looks. */
  readonly aloneSlowRunAsleepMicros: number;
  /** As `aloneMicros`, in batches of 64. */
  readonly batchedMicros: number;
  /** CPU microseconds of two threads that do nothing but wake each other, one of them without blocking: as for an item alone. */
  readonly wakeFloorMicros: number;
  /** The same, both blocking. */
  readonly blockingWakeFloorMicros: number;
  /** From reserve to result, one item at a time, microseconds. */
  readonly aloneRoundTripMicros: number;
}

/** Measures a ring between this thread and a consumer thread that blocks, and in turns with it what wakes cost; a sample each round. */
export async function measureSharedCost(batches: number): Promise<readonly SharedCost[]> {
  const rounds: SharedCost[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const count = Math.ceil(batches / ROUNDS);
    const alone = await measure(count, 1, {});
    const asleep = await measure(count, 1, { spinMicros: 0 });
    const slowCount = Math.ceil(count / SLOW_RUN_SHARE);
    const slow = await measure(slowCount, 1, {}, SLOW_RUN_MICROS);
    const slowAsleep = await measure(slowCount, 1, { spinMicros: 0 }, SLOW_RUN_MICROS);
    const batched = await measure(count, 64, {});
    rounds.push({
      aloneMicros: alone.cpuMicros,
      aloneAsleepMicros: asleep.cpuMicros,
      aloneSlowRunMicros: slow.cpuMicros,
      aloneSlowRunAsleepMicros: slowAsleep.cpuMicros,
      batchedMicros: batched.cpuMicros,
      wakeFloorMicros: await measureWakes(count, false),
      blockingWakeFloorMicros: await measureWakes(count, true),
      aloneRoundTripMicros: alone.wallMicros,
    });
  }
  return rounds;
}

/** `measureSharedCost` in a process that has one core; undefined where that cannot be had. */
export function measureOnOneCore(batches: number): readonly SharedCost[] | undefined {
  const file = import.meta.url.endsWith(".ts") ? "./one-core-child.ts" : "./one-core-child.js";
  const script = fileURLToPath(new URL(file, import.meta.url));
  const args = ["-c", "0", process.execPath, ...process.execArgv, script, String(batches)];
  const { status, stdout } = spawnSync("taskset", args, { encoding: "utf8" });
  return status === 0 ? (JSON.parse(stdout) as readonly SharedCost[]) : undefined;
}

/** `items` of one row are submitted in one go, and the next when they are answered. */
async function measure(
  batches: number,
  items: number,
  options: RingPortOptions,
  runMicros = 0,
): Promise<{ readonly cpuMicros: number; readonly wallMicros: number }> {
  const ring = createSharedRing({ schema: COST_SCHEMA, maxBatchSize: items, slots: 4, maxProducers: 1 });
  const file = import.meta.url.endsWith(".ts") ? "./shared-cost-child.ts" : "./shared-cost-child.js";
  const worker = new Worker(new URL(file, import.meta.url), {
    workerData: { ring, options, runMicros },
    execArgv: process.execArgv,
  });
  await new Promise((resolve) => {
    worker.once("message", resolve);
  });
  const meter = new Meter(batches);
  const result = await new Promise<{ cpuMicros: number; wallMicros: number }>((resolve, reject) => {
    const onPublished = (slot: number): void => {
      const { y } = port.views(slot).outputs;
      for (let row = 0; row < items; row += 1) {
        if (y[row] !== row + 1) {
          reject(new Error(`row ${row} holds ${y[row]}`));
        }
      }
      const measured = meter.tick();
      if (measured === undefined) {
        submit();
      } else {
        resolve({ cpuMicros: measured.cpuMicros / items, wallMicros: measured.wallMicros / items });
      }
    };
    const port = new RingPort(ring, { onPublished }, options);
    const submit = (): void => {
      for (let i = 0; i < items; i += 1) {
        const place = port.reserve(1);
        if (place === FULL) {
          reject(new Error("the ring is full"));
          return;
        }
        const row = port.rowOf(place);
        port.views(port.slotOf(place)).inputs.x[row] = row;
        port.commit(place, 1);
      }
    };
    submit();
  });
  drainRing(ring);
  await worker.terminate();
  return result;
}

/** The other thread blocks, as a consumer; this one too, or else it waits as a producer does, without blocking. */
async function measureWakes(rounds: number, blocking: boolean): Promise<number> {
  const words = new Int32Array(new SharedArrayBuffer(256));
  const file = import.meta.url.endsWith(".ts") ? "./wake-child.ts" : "./wake-child.js";
  const worker = new Worker(new URL(file, import.meta.url), { workerData: words, execArgv: process.execArgv });
  await new Promise((resolve) => {
    worker.once("message", resolve);
  });
  const meter = new Meter(rounds);
  for (let round = 0; ; round += 1) {
    const waited = blocking ? undefined : Atomics.waitAsync(words, ANSWERED, round);
    Atomics.store(words, ASKED, round + 1);
    Atomics.notify(words, ASKED);
    if (waited?.async === true) {
      await waited.value;
    }
    while (Atomics.load(words, ANSWERED) === round) {
      Atomics.wait(words, ANSWERED, round);
    }
    const measured = meter.tick();
    if (measured !== undefined) {
      await worker.terminate();
      return measured.cpuMicros;
    }
  }
}

/** Words of the wake measurement, in cache lines of their own. */
export const ASKED = 0;
export const ANSWERED = 32;

/** Cuts a run, after a warm-up, into parts and gives medians of them, so that a disturbance of one does not count. */
class Meter {
  readonly #part: number;
  readonly #cpuMicros: number[] = [];
  readonly #wallMicros: number[] = [];
  #warm = false;
  #ticks = 0;
  #cpu = process.cpuUsage();
  #startMs = performance.now();

  constructor(ticks: number) {
    this.#part = Math.ceil(ticks / PARTS);
  }

  /** After each of the same things; at the end what one took. */
  tick(): { readonly cpuMicros: number; readonly wallMicros: number } | undefined {
    this.#ticks += 1;
    if (this.#ticks < this.#part) {
      return undefined;
    }
    const { user, system } = process.cpuUsage(this.#cpu);
    const elapsedMs = performance.now() - this.#startMs;
    this.#ticks = 0;
    if (this.#warm) {
      this.#cpuMicros.push((user + system) / this.#part);
      this.#wallMicros.push((elapsedMs * 1000) / this.#part);
      if (this.#cpuMicros.length === PARTS) {
        return { cpuMicros: median(this.#cpuMicros), wallMicros: median(this.#wallMicros) };
      }
    } else if (elapsedMs < WARMUP_MS) {
      return undefined;
    }
    this.#warm = true;
    this.#cpu = process.cpuUsage();
    this.#startMs = performance.now();
    return undefined;
  }
}
