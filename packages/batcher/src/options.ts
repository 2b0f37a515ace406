import { BatcherError } from "./batcher-error.ts";
import type { BatcherHooks } from "./batcher-hooks.ts";
import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";
import type { FlushPolicy, FlushReason, PaddingPolicy } from "./flush-policy.ts";
import { unknownOptions } from "./unknown-options.ts";

/** When a batch is made of what waits. */
export type BatchingPolicy = "off" | "window" | "adaptive";

/** Up to when items are collected before a batch is made of them. */
export type CollectUntil = "tick" | "poll";

/** A batch that is about to run. */
export interface Batch<Item> {
  /** In the order in which results are expected. At least one. */
  readonly items: readonly Item[];
  /** Summed size of the items. */
  readonly size: number;
  /** The size to pad to: the smallest of `allowedBatchSizes` that holds `size`, or `size` itself without that option. */
  readonly paddedSize: number;
  readonly flushReason: FlushReason;
  /** Aborted when nobody waits for any result of the batch any more, on `runTimeoutMs`, and on `close()`. */
  readonly signal: AbortSignal;
}

/**
 * Runs a batch. One result an item, in the order of the items, in anything with a `length` and indices, typed arrays
 * too. A result that is an `Error` fails its own item only. A throw, a rejection, another number of results or no list
 * fails this batch only, with code `run_failed`.
 */
export type RunBatch<Item, Result> = (
  batch: Batch<Item>,
) => PromiseLike<ArrayLike<Result | Error>> | ArrayLike<Result | Error>;

export interface BatcherOptions<Item, Result> {
  readonly run: RunBatch<Item, Result>;
  /** Size of an item, a whole number from 1: rows, tokens, examples. Default: 1 for each item. */
  readonly sizeOf?: (item: Item) => number;
  /** Largest summed size of a batch. Default 256. */
  readonly maxBatchSize?: number;
  /**
   * Sizes that a batch is padded to, rising; the last must be `maxBatchSize`. For devices that run a batch of any size
   * at the cost of the next larger of these. Default: none, no padding. (TensorFlow: `allowed_batch_sizes`.)
   */
  readonly allowedBatchSizes?: readonly number[];
  /**
   * What to do with a batch between two allowed sizes: pad it up, send the part that fills the smaller (`batchDown`),
   * or what costs less by the learnt cost (`minimizeCost`, the default). Ignored without `allowedBatchSizes`.
   */
  readonly paddingPolicy?: PaddingPolicy;
  /**
   * `off`: each item alone. `window`: up to `batchTimeoutMicros` for more items. `adaptive` (default): at once while
   * there is room in flight, unless what was learnt says that a short wait raises throughput. Or a policy of your own.
   */
  readonly policy?: BatchingPolicy | FlushPolicy;
  /**
   * When it is looked whether a batch is due. `tick` (default): as soon as the code that submits items has run, so that items submitted
   * together go together. `poll`: after all I/O that is ready now, so that what other sockets already have goes with them, though a
   * batch be full before; a wait of the policy's ends without that. All of it must have room among `maxEnqueuedItems`. That
   * is for a run which takes the CPU from the thread that reads: there, reading first makes fewer and larger batches
   * and nobody waits for it. A device that could work meanwhile would be idle.
   */
  readonly collectUntil?: CollectUntil;
  /** Policy `window`: the longest wait, microseconds from the arrival of the oldest item. 0: no wait. Default 1000. */
  readonly batchTimeoutMicros?: number;
  /**
   * Policy `adaptive`: it never waits for more items where wait and run together would take the oldest item past this
   * many milliseconds from its arrival. Default: no such limit (it never waits longer than a batch's fixed cost).
   */
  readonly latencyBudgetMs?: number;
  /** Most items that may wait; those that run are not counted. Default 10,000. */
  readonly maxEnqueuedItems?: number;
  /** Largest summed size that may wait. Default: 64 full batches. */
  readonly maxEnqueuedSize?: number;
  /** Batches that may run at a time. Default 1. */
  readonly maxInFlightBatches?: number;
  /** Cuts an item that is larger than a batch into parts, in order, each of `maxSize` or less. Needs `join`. */
  readonly split?: (item: Item, maxSize: number) => readonly Item[];
  /** Makes the result of a split item from those of its parts, in order. Needs `split`. */
  readonly join?: (results: readonly Result[], item: Item) => Result;
  /** A run that has not settled after this many milliseconds fails with `run_timeout`. Default: no limit. */
  readonly runTimeoutMs?: number;
  /** Each time an item has waited this many milliseconds it counts as one priority higher. Default 100. */
  readonly agingMs?: number;
  readonly clock?: Clock;
  readonly hooks?: BatcherHooks;
}

const OPTION_NAMES = Object.keys({
  run: true,
  sizeOf: true,
  maxBatchSize: true,
  allowedBatchSizes: true,
  paddingPolicy: true,
  policy: true,
  collectUntil: true,
  batchTimeoutMicros: true,
  latencyBudgetMs: true,
  maxEnqueuedItems: true,
  maxEnqueuedSize: true,
  maxInFlightBatches: true,
  split: true,
  join: true,
  runTimeoutMs: true,
  agingMs: true,
  clock: true,
  hooks: true,
} satisfies Record<keyof BatcherOptions<never, never>, true>);

/** The options with nothing left open. */
export interface ResolvedOptions<Item, Result> {
  readonly run: RunBatch<Item, Result>;
  readonly sizeOf: ((item: Item) => number) | undefined;
  readonly maxBatchSize: number;
  readonly allowedBatchSizes: readonly number[] | undefined;
  readonly paddingPolicy: PaddingPolicy;
  readonly policy: BatchingPolicy | FlushPolicy;
  readonly collectUntil: CollectUntil;
  readonly batchTimeoutMicros: number;
  readonly latencyBudgetMs: number;
  readonly maxEnqueuedItems: number;
  readonly maxEnqueuedSize: number;
  readonly maxInFlightBatches: number;
  readonly split: ((item: Item, maxSize: number) => readonly Item[]) | undefined;
  readonly join: ((results: readonly Result[], item: Item) => Result) | undefined;
  readonly runTimeoutMs: number;
  readonly agingMs: number;
  readonly clock: Clock;
  readonly hooks: BatcherHooks;
}

const POLICIES: readonly string[] = ["off", "window", "adaptive"] satisfies BatchingPolicy[];
const COLLECT_UNTIL: readonly string[] = ["tick", "poll"] satisfies CollectUntil[];
const PADDING_POLICIES: readonly string[] = ["padUp", "batchDown", "minimizeCost"] satisfies PaddingPolicy[];

/** Fills in the defaults. Throws `invalid_options`, naming every problem, when the options do not work together. */
export function resolveOptions<Item, Result>(options: BatcherOptions<Item, Result>): ResolvedOptions<Item, Result> {
  const maxBatchSize = options.maxBatchSize ?? 256;
  const resolved: ResolvedOptions<Item, Result> = {
    run: options.run,
    sizeOf: options.sizeOf,
    maxBatchSize,
    allowedBatchSizes: options.allowedBatchSizes,
    paddingPolicy: options.paddingPolicy ?? "minimizeCost",
    policy: options.policy ?? "adaptive",
    collectUntil: options.collectUntil ?? "tick",
    batchTimeoutMicros: options.batchTimeoutMicros ?? 1000,
    latencyBudgetMs: options.latencyBudgetMs ?? Infinity,
    maxEnqueuedItems: options.maxEnqueuedItems ?? Math.max(10_000, maxBatchSize),
    maxEnqueuedSize: options.maxEnqueuedSize ?? (maxBatchSize > 0 ? 64 * maxBatchSize : Infinity),
    maxInFlightBatches: options.maxInFlightBatches ?? 1,
    split: options.split,
    join: options.join,
    runTimeoutMs: options.runTimeoutMs ?? Infinity,
    agingMs: options.agingMs ?? 100,
    clock: options.clock ?? systemClock,
    hooks: options.hooks ?? {},
  };
  const problems = [...unknownOptions(options, OPTION_NAMES), ...findProblems(resolved)];
  if (problems.length > 0) {
    throw new BatcherError("invalid_options", `invalid batcher options: ${problems.join("; ")}`);
  }
  return resolved;
}

function* findProblems<Item, Result>(options: ResolvedOptions<Item, Result>): Iterable<string> {
  for (const name of ["run", "sizeOf", "split", "join"] as const) {
    if (typeof options[name] !== "function" && (name === "run" || options[name] !== undefined)) {
      yield `${name}: expected a function, received ${shown(options[name])}`;
    }
  }
  if ((options.split === undefined) !== (options.join === undefined)) {
    yield "split and join: expected both or neither";
  }
  const { policy, paddingPolicy, collectUntil } = options;
  if (typeof policy === "object" ? typeof policy?.decide !== "function" : !POLICIES.includes(policy)) {
    yield `policy: expected ${POLICIES.join(" | ")} or a FlushPolicy, received ${shown(policy)}`;
  }
  if (!PADDING_POLICIES.includes(paddingPolicy)) {
    yield `paddingPolicy: expected ${PADDING_POLICIES.join(" | ")}, received ${shown(paddingPolicy)}`;
  }
  if (!COLLECT_UNTIL.includes(collectUntil)) {
    yield `collectUntil: expected ${COLLECT_UNTIL.join(" | ")}, received ${shown(collectUntil)}`;
  }
  if (!Number.isSafeInteger(options.maxBatchSize) || options.maxBatchSize < 1) {
    yield `maxBatchSize: expected a whole number from 1, received ${shown(options.maxBatchSize)}`;
  }
  for (const name of ["maxEnqueuedItems", "maxEnqueuedSize", "maxInFlightBatches"] as const) {
    const value: unknown = options[name];
    if (value !== Infinity && !(Number.isSafeInteger(value) && (value as number) >= 1)) {
      yield `${name}: expected a whole number from 1 or Infinity, received ${shown(value)}`;
    }
  }
  for (const name of ["latencyBudgetMs", "runTimeoutMs", "agingMs"] as const) {
    if (typeof options[name] !== "number" || !(options[name] > 0)) {
      yield `${name}: expected more than 0 milliseconds, received ${shown(options[name])}`;
    }
  }
  if (!Number.isFinite(options.batchTimeoutMicros) || options.batchTimeoutMicros < 0) {
    yield `batchTimeoutMicros: expected 0 or more microseconds, received ${shown(options.batchTimeoutMicros)}`;
  }
  if (options.maxEnqueuedSize < options.maxBatchSize) {
    yield (
      `maxEnqueuedSize: expected at least maxBatchSize (${options.maxBatchSize}), received ${options.maxEnqueuedSize}, ` +
      "with which no batch is ever full"
    );
  }
  if (options.sizeOf === undefined && options.maxEnqueuedItems < options.maxBatchSize) {
    yield (
      `maxEnqueuedItems: expected at least maxBatchSize (${options.maxBatchSize}), received ` +
      `${options.maxEnqueuedItems}, with which no batch is ever full`
    );
  }
  const sizes = options.allowedBatchSizes;
  if (sizes !== undefined) {
    const rising = sizes.every(
      (size, i) => Number.isSafeInteger(size) && size > (i === 0 ? 0 : (sizes[i - 1] as number)),
    );
    if (!rising || sizes.at(-1) !== options.maxBatchSize) {
      yield (
        `allowedBatchSizes: expected rising whole numbers that end with maxBatchSize (${options.maxBatchSize}), ` +
        `received [${sizes.join(", ")}]`
      );
    }
  }
}

function shown(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
