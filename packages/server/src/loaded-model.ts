import { ConnectError } from "@connectrpc/connect";
import type { Device } from "@dlrm/accelerator";
import { Batcher, BatcherError } from "@dlrm/batcher";
import { EmbeddingError, type GatherPlan, type OutOfVocabularyId } from "@dlrm/embedding";
import type { Bundle } from "@dlrm/model";
import type { Logger } from "pino";
import type { BatchSlot } from "./batch-slot.ts";
import { outOfRange, type ScoringRequest } from "./input-collector.ts";
import { bucketFor, isDeviceLost, type ModelHost } from "./model-host.ts";
import type { BatchMetrics } from "./metrics-text.ts";
import type { ServerLimits } from "./model-metadata.ts";
import { type InputPlan, type ModelPlan, planModel } from "./model-plan.ts";
import { ScoringItem, type ScoringItemOwner } from "./scoring-item.ts";
import type { PredictOptions, ScoringModel } from "./scoring-model.ts";
import type { CancelSignal, ScoreSink } from "./score-sink.ts";
import { ServerError } from "./server-error.ts";
import type { ResolvedOptions } from "./server-options.ts";
import { sharesOnlyCpu } from "./shared-cpu.ts";
import { SlotPool } from "./slot-pool.ts";
import type { StageTimes } from "./stage-times.ts";
import { WaitingLimit } from "./waiting-limit.ts";
import { copyRequest, joinScores, sliceRequest } from "./split-request.ts";

type Scores = Float32Array<ArrayBuffer>;

export interface LoadedModelOptions {
  readonly options: ResolvedOptions;
  readonly logger: Logger;
  readonly stages: StageTimes | undefined;
  /** A device that does not open itself again is gone: nothing can be scored any more. */
  readonly onDeviceLost: (error: Error) => void;
}

/** Rows of a slot in which requests are placed that run alone. */
const PLACED_ROWS_ALONE = 256;

/** A model that scores in one thread: its tables, its device, and the batcher between them and the requests. */
export class LoadedModel implements ScoringModel, ScoringItemOwner {
  readonly name: string;
  readonly version: string;
  readonly spec: Bundle["spec"];
  readonly plan: ModelPlan;
  readonly limits: ServerLimits;
  readonly maxExamplesPerRequest: number;
  /** Batch sizes of the device, ascending. */
  readonly buckets: readonly number[];
  readonly #waitingLimit: WaitingLimit;
  readonly #gatherPlan: GatherPlan;
  readonly #device: Device;
  readonly #batcher: Batcher<ScoringItem, Scores | undefined>;
  readonly #slots: SlotPool;
  readonly #stages: StageTimes | undefined;
  /** Requests refused for an id that is no row of its table, by input. */
  readonly outOfVocabulary: Map<string, number> = new Map<string, number>();
  readonly #maxBatchSize: number;
  /** Whether the device may work on several batches at one time, and end with them in any order. */
  readonly #runsOverlap: boolean;
  /** Whether batches that have ended are looked for with every request, as long as requests come in the same turn of the loop. */
  readonly #settlesEarly: boolean;
  readonly #onDeviceLost: (error: Error) => void;
  /** Examples that were placed and wait for their batch. */
  #waitingExamples = 0;

  /** Scores with what `host` has, which stays the caller's to close. Resolves when everything is warm. */
  static async load(host: ModelHost, options: LoadedModelOptions): Promise<LoadedModel> {
    const model = new LoadedModel(host, options);
    await model.#warmUp();
    return model;
  }

  private constructor(host: ModelHost, load: LoadedModelOptions) {
    const { bundle, limits, buckets, store, device } = host;
    const { options, logger } = load;
    const plan = planModel(bundle.spec);
    this.name = bundle.name;
    this.version = bundle.version;
    this.spec = bundle.spec;
    this.plan = plan;
    this.limits = limits;
    this.#waitingLimit = new WaitingLimit(limits, plan);
    this.maxExamplesPerRequest = limits.maxExamplesPerRequest;
    this.buckets = buckets;
    this.#device = device;
    this.#onDeviceLost = load.onDeviceLost;
    this.#stages = load.stages;
    this.#gatherPlan = store.plan(bundle.spec.features.map(({ name, hotSize }) => ({ table: name, hotSize })));
    const largestBucket = buckets.at(-1) as number;
    this.#maxBatchSize = limits.maxBatchSize;
    const maxInFlightBatches = options.maxInFlightBatches ?? device.maxInFlight;
    this.#runsOverlap = Math.min(maxInFlightBatches, device.maxInFlight) > 1;
    const isOnOnlyCpu = sharesOnlyCpu(device);
    this.#settlesEarly = !isOnOnlyCpu;
    const { maxExamples } = this.#waitingLimit;
    this.#slots = new SlotPool({
      // Requests that run alone would wander through all of a large slot, and out of the caches.
      placedRows: options.batching === "off" ? Math.min(largestBucket, PLACED_ROWS_ALONE) : largestBucket,
      largestBucket,
      denseFeatures: plan.denseFeatures,
      pooledWidth: this.#gatherPlan.outputWidth,
      // One is filled while the others run.
      maxSlots: maxInFlightBatches + 1,
    });
    // Only one that the device has not begun can be taken back; a signal costs as much as some requests.
    const mayWaitInDevice = maxInFlightBatches > device.maxInFlight;
    this.#batcher = new Batcher<ScoringItem, Scores | undefined>({
      run: (batch) => this.#run(batch.items, mayWaitInDevice ? batch.signal : undefined),
      sizeOf: (item) => item.batch,
      maxBatchSize: limits.maxBatchSize,
      // The padding of a batch to the device's next size is known to the batcher, which learns what each size costs.
      allowedBatchSizes: [...buckets.slice(0, -1), limits.maxBatchSize],
      policy: options.batching,
      collectUntil: options.batching === "adaptive" && isOnOnlyCpu ? "poll" : "tick",
      batchTimeoutMicros: options.batchTimeoutMicros,
      maxInFlightBatches,
      // No item is smaller than an example.
      maxEnqueuedItems: maxExamples,
      maxEnqueuedSize: Math.max(maxExamples, limits.maxBatchSize),
      split: (item, maxSize) => this.#split(item, maxSize),
      join: (scores) => joinScores(scores as readonly Scores[]),
      hooks: {
        onBatchEnd: ({ items, size, paddedSize, flushReason, oldestWaitMs, queuedItems }, runMs, error) => {
          logger.trace(
            {
              requests: items,
              examples: size,
              padded: paddedSize - size,
              flushReason,
              oldestWaitMs,
              runMs,
              queuedItems,
            },
            error === undefined ? "batch" : "batch failed",
          );
        },
      },
    });
  }

  /** Scores a request: [B]. Reads it before this returns. Throws `ServerError`. */
  async predict(request: ScoringRequest, { signal, deadlineMs }: PredictOptions): Promise<Scores> {
    const item = this.#place(request, undefined);
    try {
      return (await this.#batcher.submit(item, { signal, deadlineMs })) as Scores;
    } catch (error) {
      this.#abandon(item);
      throw this.#translate(error, signal);
    }
  }

  /** The same for a sink, which is told the outcome; what is wrong with the request itself is thrown. */
  score(request: ScoringRequest, sink: ScoreSink): void {
    if (request.batch > this.#maxBatchSize) {
      this.#scoreParts(request, sink);
      return;
    }
    const item = this.#place(request, sink);
    const { deadlineMs } = sink;
    item.enqueued = this.#batcher.enqueue(item, item, deadlineMs === undefined ? undefined : { deadlineMs });
    sink.addEventListener("abort", item);
  }

  /** The scores of parts must be joined, and come as a result of the batcher. */
  #scoreParts(request: ScoringRequest, sink: ScoreSink): void {
    const item = this.#place(request, undefined);
    const { batch } = item;
    const { deadlineMs } = sink;
    const enqueued = this.#batcher.enqueue(
      item,
      (error, scores) => {
        if (error === undefined) sink.scored(scores as Scores, 0, batch, this.version);
        else sink.failed(this.#translate(error, sink));
      },
      deadlineMs === undefined ? undefined : { deadlineMs },
    );
    sink.addEventListener("abort", () => this.#batcher.cancel(enqueued, sink.reason));
  }

  itemSettled(item: ScoringItem, error: BatcherError | undefined): void {
    if (error === undefined) return;
    const sink = item.sink as ScoreSink;
    item.hasFailed = true;
    this.#abandon(item);
    sink.failed(this.#translate(error, sink));
  }

  itemAborted({ enqueued, sink }: ScoringItem): void {
    if (enqueued !== undefined) this.#batcher.cancel(enqueued, sink?.reason);
  }

  /**
   * Gathers a request straight into its rows, while the device may be busy with others; keeps a copy of it if there is no
   * room for it now.
   */
  #place(request: ScoringRequest, sink: ScoreSink | undefined): ScoringItem {
    // A turn of the loop reads all sockets that are ready: for so long the device would have nothing to do, and its scores would wait.
    if (this.#settlesEarly) this.#device.settleEnded();
    const { batch } = request;
    const slot = batch <= this.#maxBatchSize && !this.#isFull(batch) ? this.#slots.withRoom(batch) : undefined;
    if (slot === undefined) {
      const wrong = this.#gatherPlan.findOutOfVocabulary(request.ids, batch);
      if (wrong !== undefined) throw this.#outOfRange(wrong);
      return new ScoringItem(this, batch, undefined, 0, copyRequest(request), sink);
    }
    const stages = this.#stages;
    const startedMs = stages === undefined ? 0 : performance.now();
    try {
      slot.place(request, this.#gatherPlan, slot.used);
    } catch (error) {
      const wrong = error instanceof EmbeddingError ? error.outOfVocabulary : undefined;
      throw wrong === undefined ? error : this.#outOfRange(wrong);
    }
    const row = slot.used;
    slot.used += batch;
    slot.users++;
    this.#waitingExamples += batch;
    const item = new ScoringItem(this, batch, slot, row, undefined, sink);
    if (stages !== undefined) {
      item.placedAtMs = performance.now();
      stages.observe("gather", item.placedAtMs - startedMs);
    }
    return item;
  }

  /** Whether the batcher would refuse so many more examples: then gathering them would be in vain. */
  #isFull(batch: number): boolean {
    return this.#waitingExamples + batch > this.#waitingLimit.maxExamples;
  }

  #outOfRange({ feature, example, position, id }: OutOfVocabularyId): ServerError {
    const input = this.plan.inputs[feature + 1] as InputPlan;
    this.outOfVocabulary.set(input.name, (this.outOfVocabulary.get(input.name) ?? 0) + 1);
    return outOfRange(input, example, position, id);
  }

  /** Frees what an item has that will not run; one that runs is freed with its batch. */
  #abandon(item: ScoringItem): void {
    if (item.isRunning || item.slot === undefined) return;
    this.#waitingExamples -= item.batch;
    this.#slots.release(item.slot);
  }

  batchMetrics(): BatchMetrics {
    const stats = this.#batcher.stats();
    const { overloaded = 0, cancelled = 0, deadline_exceeded: expired = 0 } = stats.refusedByCode;
    return {
      ...stats,
      overloadedItems: overloaded,
      // Those for which it was too late when they came were dropped before they were run, too.
      cancelledBeforeRunItems: stats.cancelledBeforeRunItems + cancelled,
      expiredBeforeRunItems: stats.expiredBeforeRunItems + expired,
    };
  }

  /** Takes nothing new; resolves when what was taken has been scored. */
  async drain(): Promise<void> {
    await this.#batcher.drain();
  }

  /** What still waits is refused. */
  close(): void {
    this.#batcher.close();
  }

  async #run(items: readonly ScoringItem[], signal: AbortSignal | undefined): Promise<readonly (Scores | undefined)[]> {
    let rows = 0;
    const stages = this.#stages;
    const startedMs = stages === undefined ? 0 : performance.now();
    for (const item of items) {
      if (item.placedAtMs > 0) stages?.observe("queue", startedMs - item.placedAtMs);
      item.isRunning = true;
      if (item.slot !== undefined) this.#waitingExamples -= item.batch;
      rows += item.batch;
    }
    const own = this.#slotOfOwn(items, rows);
    try {
      const first = items[0] as ScoringItem;
      const slot = own ?? first.slot;
      const firstRow = own === undefined ? first.row : 0;
      if (slot === undefined) throw new ServerError("internal", "a batch without a slot");
      const bucket = bucketFor(this.buckets, rows);
      const options = signal === undefined ? { rows } : { rows, signal };
      await this.#device.execute(bucket, slot.inputsFrom(firstRow), slot.outputsFrom(firstRow), options);
      stages?.observe("device", performance.now() - startedMs);
      const results: (Scores | undefined)[] = [];
      results.length = items.length;
      let row = firstRow;
      let hasSinks = false;
      for (let index = 0; index < items.length; index++) {
        const { batch, sink } = items[index] as ScoringItem;
        if (sink === undefined) results[index] = Float32Array.from(slot.scores.subarray(row, row + batch));
        else hasSinks = true;
        row += batch;
      }
      // Answers are written after the next batch is on its way: the device need not wait for them.
      if (hasSinks) process.nextTick(this.#answer, items, slot, firstRow, own);
      else this.#free(items, own);
      return results;
    } catch (error) {
      if (isDeviceLost(error)) this.#onDeviceLost(error);
      if (isDeviceLost(error) && error.code === "device_wedged") {
        for (const { slot } of items) if (slot !== undefined) this.#slots.lose(slot);
      } else {
        this.#free(items, own);
      }
      throw error;
    }
  }

  /** Undefined if the items stand in a row where they were placed; else a slot into which they are put together. */
  #slotOfOwn(items: readonly ScoringItem[], rows: number): BatchSlot | undefined {
    const { slot, row: firstRow } = items[0] as ScoringItem;
    let row = firstRow;
    let inPlace = slot !== undefined;
    for (const item of items) {
      inPlace &&= item.slot === slot && item.row === row;
      row += item.batch;
    }
    if (inPlace && !(this.#runsOverlap && this.#padsOthers(slot, row, rows))) {
      // What comes now begins a batch of its own.
      if (slot?.used === firstRow + rows) this.#slots.seal(slot);
      return undefined;
    }
    const own = this.#slots.take();
    try {
      row = 0;
      for (const item of items) {
        if (item.slot !== undefined) own.copy(item.slot, item.row, row, item.batch);
        else own.place(item.request as ScoringRequest, this.#gatherPlan, row);
        row += item.batch;
      }
    } catch (error) {
      this.#free(items, own);
      throw error;
    }
    return own;
  }

  /** Whether the scores of a batch's padding, behind row `end`, would fall into rows of requests that run later. */
  #padsOthers(slot: BatchSlot | undefined, end: number, rows: number): boolean {
    return slot !== undefined && slot.used > end && bucketFor(this.buckets, rows) > rows;
  }

  readonly #answer = (
    items: readonly ScoringItem[],
    slot: BatchSlot,
    firstRow: number,
    own: BatchSlot | undefined,
  ): void => {
    let row = firstRow;
    const stages = this.#stages;
    const startedMs = stages === undefined ? 0 : performance.now();
    for (const { sink, batch, hasFailed } of items) {
      if (!hasFailed) sink?.scored(slot.scores, row, batch, this.version);
      row += batch;
    }
    stages?.observe("respond", performance.now() - startedMs);
    this.#free(items, own);
  };

  #free(items: readonly ScoringItem[], own: BatchSlot | undefined): void {
    for (const { slot } of items) if (slot !== undefined) this.#slots.release(slot);
    if (own !== undefined) this.#slots.release(own);
  }

  #split({ batch, request }: ScoringItem, maxSize: number): readonly ScoringItem[] {
    const parts: ScoringItem[] = [];
    for (let start = 0; start < batch; start += maxSize) {
      const part = sliceRequest(this.plan, request as ScoringRequest, start, Math.min(maxSize, batch - start));
      parts.push(new ScoringItem(this, part.batch, undefined, 0, part, undefined));
    }
    return parts;
  }

  #translate(error: unknown, signal: CancelSignal): unknown {
    if (!(error instanceof BatcherError)) return error;
    switch (error.code) {
      case "overloaded":
        return this.#waitingLimit.overloaded(this.#batcher.stats().queuedSize, error.retryAfterMs, error);
      case "draining":
      case "closed":
        return new ServerError("unavailable", "the server is draining: try another one", { cause: error });
      case "deadline_exceeded":
        return new ServerError("deadline_exceeded", "the deadline passed before the request was scored", {
          cause: error,
        });
      case "cancelled":
        // The signal's reason tells a passed deadline from a caller who went away.
        return signal.reason instanceof ConnectError || signal.reason instanceof ServerError
          ? signal.reason
          : new ServerError("cancelled", "the request was cancelled", { cause: error });
      default:
        return isDeviceLost(error.cause)
          ? new ServerError("unavailable", `the device is lost: ${error.cause.message}`, { cause: error })
          : new ServerError("internal", `scoring failed: ${messageOf(error.cause ?? error)}`, { cause: error });
    }
  }

  /** Runs the whole path once, so that the first request finds everything compiled and in place. */
  async #warmUp(): Promise<void> {
    const { idsPerExample, denseFeatures } = this.plan;
    const batch = 1;
    const request = { batch, dense: new Float32Array(denseFeatures), ids: new Int32Array(idsPerExample) };
    await this.#run([this.#place(request, undefined)], undefined);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
