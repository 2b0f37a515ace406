import type { BatchingPolicy } from "@dlrm/batcher";
import { Batcher } from "@dlrm/batcher";
import { FakeClock } from "@dlrm/batcher/testing";

/**
 * A device that runs one batch at a time, each for `fixedMicros + perItemMicros * paddedSize`, or as long as `microsBySize` says: of one
 * item, two, four, and so on to `MAX_BATCH_SIZE`.
 */
export interface SimulatedDevice {
  readonly name: string;
  readonly fixedMicros: number;
  readonly perItemMicros: number;
  readonly microsBySize?: readonly number[];
}

/** How long a batch takes, padding and all. */
export function runMicrosOf({ fixedMicros, perItemMicros, microsBySize }: SimulatedDevice, paddedSize: number): number {
  return microsBySize?.[Math.ceil(Math.log2(paddedSize))] ?? fixedMicros + perItemMicros * paddedSize;
}

/** Callers that each wait for their answer and come back after a round trip, or Poisson arrivals. */
export type SimulatedLoad =
  | { readonly kind: "closed"; readonly callers: number }
  | { readonly kind: "open"; readonly requestsPerS: number };

export interface SimulationOptions {
  readonly device: SimulatedDevice;
  readonly load: SimulatedLoad;
  /** Items of a request; a power of two, at most 4096. */
  readonly requestSize: number;
  readonly policy: BatchingPolicy;
  /** Requests measured, after as many of warm-up as `warmupRequests` says. */
  readonly requests: number;
  readonly warmupRequests: number;
  readonly seed: number;
  /** Mean time from an answer to the same caller's next request, and how far each may be off, as a share. */
  readonly roundTripMicros?: number;
  readonly roundTripSpread?: number;
  /** Each run takes longer by up to this share, at random. Default 0. */
  readonly runNoise?: number;
  /** Closed loop: callers and batcher share one core. Default: each has its own. */
  readonly sharedCore?: SharedCore;
}

/** What a core does for callers and batcher, one thing at a time. */
export interface SharedCore {
  /** To make a request, for each of its items: in the order in which callers come back. */
  readonly itemMicros: number;
  /** For a batch, outside its run (wakes, publishing): at once, before what is to be done for callers. */
  readonly batchMicros: number;
}

export interface SimulationResult {
  readonly itemsPerS: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly meanBatchSize: number;
  readonly flushReasons: Readonly<Record<string, number>>;
}

export const MAX_BATCH_SIZE = 4096;
export const BUCKETS: readonly number[] = Array.from({ length: 13 }, (_, i) => 2 ** i);

/** Plays a load against the real batcher on a fake clock, and measures it once it has warmed up. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const {
    device,
    load,
    requestSize,
    policy,
    requests,
    warmupRequests,
    roundTripMicros = 60,
    roundTripSpread = 0.3,
  } = options;
  const clock = new FakeClock({ microtaskTurns: 8 });
  const random = seededRandom(options.seed);
  // Apart from the arrivals', so that these are the same under every policy.
  const noiseRandom = seededRandom(options.seed + 1);
  const { itemMicros, batchMicros } = options.sharedCore ?? { itemMicros: 0, batchMicros: 0 };
  let coreFreeMs = 0;
  /** Gives the core so much to do; returns how long until that is done, after all that it had. */
  const occupyCoreMs = (micros: number): number => {
    coreFreeMs = Math.max(clock.now(), coreFreeMs) + micros / 1000;
    return coreFreeMs - clock.now();
  };
  const batcher = new Batcher<number, number>({
    clock,
    policy,
    sizeOf: (size) => size,
    maxBatchSize: MAX_BATCH_SIZE,
    allowedBatchSizes: BUCKETS,
    // The fixed policies are the reference's, which always pads up.
    paddingPolicy: policy === "adaptive" ? "minimizeCost" : "padUp",
    batchTimeoutMicros: 1000,
    maxEnqueuedItems: Infinity,
    maxEnqueuedSize: Infinity,
    run: ({ items, paddedSize }) =>
      new Promise((resolve) => {
        const noise = 1 + (options.runNoise ?? 0) * noiseRandom();
        const runMicros = runMicrosOf(device, paddedSize) * noise;
        occupyCoreMs(batchMicros);
        clock.schedule(() => resolve(items), (batchMicros + runMicros) / 1000);
      }),
  });

  const total = warmupRequests + requests;
  /** Of the measured requests, in the order in which they were sent (open) or answered (closed). */
  const latenciesMs: number[] = [];
  let sent = 0;
  let finished = 0;
  let startMs = 0;
  let endMs = 0;
  const request = async (): Promise<void> => {
    const index = sent;
    sent += 1;
    const sentMs = clock.now();
    await batcher.submit(requestSize);
    finished += 1;
    if (load.kind === "open") {
      if (index >= warmupRequests) {
        latenciesMs[index - warmupRequests] = clock.now() - sentMs;
      }
    } else if (finished === warmupRequests) {
      startMs = clock.now();
    } else if (finished > warmupRequests) {
      latenciesMs.push(clock.now() - sentMs);
      endMs = clock.now();
    }
  };

  if (load.kind === "closed") {
    const caller = async (): Promise<void> => {
      if (itemMicros > 0) {
        const workMs = occupyCoreMs(itemMicros * requestSize);
        await new Promise<void>((resolve) => {
          clock.schedule(resolve, workMs);
        });
      }
      await request();
      clock.schedule(() => void caller(), (roundTripMicros * (1 + roundTripSpread * (2 * random() - 1))) / 1000);
    };
    for (let i = 0; i < load.callers; i += 1) {
      clock.schedule(() => void caller(), (roundTripMicros * random()) / 1000);
    }
  } else {
    const arrive = (): void => {
      if (sent === warmupRequests) {
        startMs = clock.now();
      }
      void request();
      if (sent < total) {
        clock.schedule(arrive, (-Math.log(1 - random()) * 1000) / load.requestsPerS);
      } else {
        endMs = clock.now();
      }
    };
    clock.schedule(arrive, 0);
  }
  const done = (): boolean => finished >= total;
  while (!done()) {
    await clock.next();
  }

  const elapsedMs = endMs - startMs + (load.kind === "open" ? backlogMs(latenciesMs) : 0);
  const stats = batcher.stats();
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const at = (quantile: number): number =>
    sorted[Math.min(sorted.length - 1, Math.ceil(quantile * sorted.length) - 1)] as number;
  const batches = Object.values(stats.batches).reduce((sum, count) => sum + count, 0);
  return {
    itemsPerS: (latenciesMs.length * requestSize * 1000) / elapsedMs,
    meanMs: sorted.reduce((sum, ms) => sum + ms, 0) / sorted.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
    meanBatchSize: stats.batchedSize / batches,
    flushReasons: stats.batches,
  };
}

/**
 * How much later the end of an open load was worked off than its beginning: 0 where the load was kept up with, so that
 * the throughput is what was offered, whatever batch the last requests fell into.
 */
function backlogMs(latenciesMs: readonly number[]): number {
  const half = latenciesMs.length >> 1;
  const meanMs = (part: readonly number[]): number => part.reduce((sum, ms) => sum + ms, 0) / part.length;
  const grownMs = 2 * (meanMs(latenciesMs.slice(-half)) - meanMs(latenciesMs.slice(0, half)));
  const p50Ms = latenciesMs.toSorted((a, b) => a - b)[half] as number;
  return grownMs > 0.5 * p50Ms ? grownMs : 0;
}

/** Uniform numbers in [0, 1), the same on every machine (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
