import type { BatcherError } from "@dlrm/batcher";
import { RingPort } from "@dlrm/batcher/shared";
import { EmbeddingError, type EmbeddingStore, type GatherPlan, type OutOfVocabularyId } from "@dlrm/embedding";
import { TimerWheel } from "@dlrm/h2";
import type { ModelSpec } from "@dlrm/model";
import { RING_CELL } from "./frontend-cells.ts";
import { outOfRange, type ScoringRequest } from "./input-collector.ts";
import { JoinedParts } from "./joined-sink.ts";
import type { ServerLimits } from "./model-metadata.ts";
import { type InputPlan, type ModelPlan, planModel } from "./model-plan.ts";
import { PromisedScores } from "./promised-scores.ts";
import { fromRingError } from "./ring-failure.ts";
import { RingItem } from "./ring-item.ts";
import { RunningBatches, type ScoringRing, type ScoringSchema, sharedNowMs } from "./scoring-ring.ts";
import type { PredictOptions, ScoringModel } from "./scoring-model.ts";
import type { ScoreSink } from "./score-sink.ts";
import { ServerError } from "./server-error.ts";
import { copyRequest, sliceRequest } from "./split-request.ts";
import type { StageTimes } from "./stage-times.ts";
import { WaitingLimit } from "./waiting-limit.ts";

/** A model as the frontends' threads are told of it; structured-cloneable. */
export interface RingModelInfo {
  readonly name: string;
  readonly version: string;
  readonly spec: ModelSpec;
  readonly limits: ServerLimits;
  readonly buckets: readonly number[];
  readonly ring: ScoringRing;
  readonly running: SharedArrayBuffer;
  /** The `ring` cells of every frontend; what waits counts for all together. */
  readonly frontends: readonly Float64Array[];
}

export interface RingModelParts {
  readonly info: RingModelInfo;
  /** This thread's. */
  readonly store: EmbeddingStore;
  /** This frontend's `ring` cells, and its count of ids that are no row, by input. */
  readonly cells: Float64Array;
  readonly outOfVocabulary: Float64Array;
  readonly stages: StageTimes | undefined;
  /** Nothing waits for room any more: `isPlaced` holds again. */
  readonly onPlaced: () => void;
}

/** Returned by `RingPort.reserve`. */
const FULL = -1;

/**
 * A model that scores with the device of another thread: requests are gathered, in this thread, straight into their rows of
 * the ring's open batch.
 *
 * Invariants: an item is in `#waiting` while it waits and in its slot's list while it is in the ring; the cell `unanswered`
 * is the sum of the sizes of all that are not settled, and of the abandoned rows whose batch is not over.
 */
export class RingModel implements ScoringModel {
  readonly name: string;
  readonly version: string;
  readonly spec: ModelSpec;
  readonly plan: ModelPlan;
  readonly limits: ServerLimits;
  readonly maxExamplesPerRequest: number;
  readonly buckets: readonly number[];
  readonly #waitingLimit: WaitingLimit;
  readonly #gatherPlan: GatherPlan;
  readonly #port: RingPort<ScoringSchema>;
  readonly #running: RunningBatches;
  readonly #cells: Float64Array;
  readonly #frontends: readonly Float64Array[];
  readonly #outOfVocabulary: Float64Array;
  readonly #stages: StageTimes | undefined;
  readonly #onPlaced: () => void;
  /** For each slot this thread's items in its present batch. */
  readonly #inRing: readonly RingItem[][];
  #waiting: RingItem[] = [];
  /** What every request is told since nothing is published any more. */
  #endedBy: ServerError | undefined = undefined;
  readonly #deadlines = new TimerWheel<RingItem>({ onExpired: (item) => this.#expire(item) });

  constructor({ info, store, cells, outOfVocabulary, stages, onPlaced }: RingModelParts) {
    this.name = info.name;
    this.version = info.version;
    this.spec = info.spec;
    this.plan = planModel(info.spec);
    this.limits = info.limits;
    this.#waitingLimit = new WaitingLimit(info.limits, this.plan);
    this.maxExamplesPerRequest = info.limits.maxExamplesPerRequest;
    this.buckets = info.buckets;
    this.#gatherPlan = store.plan(info.spec.features.map(({ name, hotSize }) => ({ table: name, hotSize })));
    this.#running = new RunningBatches(info.running);
    this.#cells = cells;
    this.#frontends = info.frontends;
    this.#outOfVocabulary = outOfVocabulary;
    this.#stages = stages;
    this.#onPlaced = onPlaced;
    this.#inRing = Array.from({ length: info.ring.slots }, () => []);
    this.#port = new RingPort(info.ring, {
      onPublished: (slot, error) => this.#published(slot, error),
      onRoom: () => this.#placeWaiting(),
      onEnded: (error) => this.#ended(error),
    });
  }

  /** Number of this thread among the ring's producers. */
  get producerId(): number {
    return this.#port.id;
  }

  predict(request: ScoringRequest, { signal, deadlineMs }: PredictOptions): Promise<Float32Array<ArrayBuffer>> {
    return new Promise((resolve, reject) => {
      this.score(request, new PromisedScores(signal, deadlineMs, resolve, reject));
    });
  }

  score(request: ScoringRequest, sink: ScoreSink): void {
    const { batch } = request;
    const { deadlineMs = Infinity } = sink;
    // A turn of the loop that reads requests takes milliseconds: scores would wait for its end, and rows for room in the ring.
    this.#port.settlePublished();
    // The port would take it all the same, and tell nothing of it ever.
    if (this.#endedBy !== undefined) {
      sink.failed(this.#endedBy);
      return;
    }
    if (sink.aborted) {
      this.#count(RING_CELL.cancelledWaiting, 1);
      sink.failed(cancelled(sink));
      return;
    }
    if (!(deadlineMs > 0)) {
      this.#count(RING_CELL.expiredWaiting, 1);
      sink.failed(deadlinePassed());
      return;
    }
    const waiting = this.#waitingExamples();
    if (waiting + batch > this.#waitingLimit.maxExamples) {
      this.#count(RING_CELL.refused, 1);
      sink.failed(this.#waitingLimit.overloaded(waiting, this.#port.retryAfterMs(waiting)));
      return;
    }
    if (batch > this.#port.maxBatchSize) this.#scoreParts(request, sink);
    else this.#add(new RingItem(batch, sink), request);
  }

  /** Whether all that was taken is in the ring: nothing waits for room. */
  get isPlaced(): boolean {
    return this.#waiting.length === 0;
  }

  /** Leaves the ring; what is still in it fails. */
  close(): void {
    this.#port.leave();
    this.#ended(undefined);
  }

  #scoreParts(request: ScoringRequest, sink: ScoreSink): void {
    const { maxBatchSize } = this.#port;
    this.#checkIds(request);
    const joined = new JoinedParts(sink, request.batch);
    const items: RingItem[] = [];
    const dropRest = (): void => {
      sink.removeEventListener("abort", onAbort);
      for (const item of items) if (item.state !== "settled") this.#drop(item);
    };
    const onAbort = (): void => {
      const [first] = items;
      if (first !== undefined) this.#cancel(items.find(({ state }) => state !== "settled") ?? first);
    };
    joined.onFailure = dropRest;
    for (let start = 0; start < request.batch; start += maxBatchSize) {
      items.push(new RingItem(Math.min(maxBatchSize, request.batch - start), joined.part(start)));
    }
    sink.addEventListener("abort", onAbort);
    let start = 0;
    for (const item of items) {
      const part = sliceRequest(this.plan, request, start, item.size);
      start += item.size;
      if (item.state !== "settled") this.#add(item, part);
    }
  }

  /** Puts an item into the ring, or among those that wait. Throws if an id is no row of its table. */
  #add(item: RingItem, request: ScoringRequest): void {
    const { sink } = item;
    const { deadlineMs } = sink;
    // Never past those that wait: first come, first served.
    if (this.#waiting.length > 0) this.#placeWaiting();
    if (this.#waiting.length > 0 || !this.#place(item, request, deadlineMs)) {
      this.#checkIds(request);
      item.request = copyRequest(request);
      if (deadlineMs !== undefined) item.deadlineAtMs = performance.now() + deadlineMs;
      this.#waiting.push(item);
      this.#count(RING_CELL.unanswered, item.size);
      this.#countWaiting(item, 1);
      this.#port.awaitRoom();
    }
    if (deadlineMs !== undefined) item.timer = this.#deadlines.add(item, deadlineMs);
    const onAbort = (): void => this.#cancel(item);
    sink.addEventListener("abort", onAbort);
    item.unlisten = () => sink.removeEventListener("abort", onAbort);
  }

  /** Gathers into the open batch; false if the ring is full. */
  #place(item: RingItem, request: ScoringRequest, deadlineMs: number | undefined): boolean {
    const { size } = item;
    const port = this.#port;
    const place = port.reserve(size, deadlineMs);
    if (place === FULL) return false;
    const slot = port.slotOf(place);
    const row = port.rowOf(place);
    const stages = this.#stages;
    const startedMs = stages === undefined ? 0 : sharedNowMs();
    const { dense, pooled } = port.views(slot).inputs;
    try {
      this.#gatherPlan.gather(request.ids, size, pooled, row);
    } catch (error) {
      // Its rows stay in the batch, for nobody.
      port.abandon(slot, size);
      port.commit(place, size);
      const wrong = error instanceof EmbeddingError ? error.outOfVocabulary : undefined;
      throw wrong === undefined ? error : this.#outOfRange(wrong);
    }
    const at = row * this.plan.denseFeatures;
    if (size > 1) dense.set(request.dense, at);
    else for (let index = 0; index < request.dense.length; index++) dense[at + index] = request.dense[index] as number;
    port.commit(place, size);
    if (item.state === "waiting" && item.request === undefined) this.#count(RING_CELL.unanswered, size);
    item.state = "inRing";
    item.slot = slot;
    item.row = row;
    item.request = undefined;
    (this.#inRing[slot] as RingItem[]).push(item);
    if (stages !== undefined) {
      item.placedAtMs = sharedNowMs();
      stages.observe("gather", item.placedAtMs - startedMs);
    }
    return true;
  }

  #placeWaiting(): void {
    const waiting = this.#waiting;
    let placed = 0;
    for (const item of waiting) {
      if (item.state === "waiting") {
        const { request, deadlineAtMs } = item;
        const deadlineMs = deadlineAtMs < Infinity ? Math.max(0, deadlineAtMs - performance.now()) : undefined;
        if (!this.#place(item, request as ScoringRequest, deadlineMs)) break;
        this.#countWaiting(item, -1);
      }
      placed++;
    }
    waiting.splice(0, placed);
    if (waiting.length > 0) this.#port.awaitRoom();
    else this.#onPlaced();
  }

  #published(slot: number, error: BatcherError | undefined): void {
    const items = this.#inRing[slot] as RingItem[];
    const { scores } = this.#port.views(slot).outputs;
    const stages = this.#stages;
    const startedMs = stages === undefined ? 0 : sharedNowMs();
    const batchStartedMs = this.#running.startedMs(slot);
    for (const item of items) {
      this.#count(RING_CELL.unanswered, -item.size);
      if (item.state === "settled") continue;
      this.#settle(item);
      if (item.placedAtMs > 0) stages?.observe("queue", Math.max(0, batchStartedMs - item.placedAtMs));
      if (error === undefined) item.sink.scored(scores, item.row, item.size, this.version);
      else item.sink.failed(fromRingError(error));
    }
    if (items.length > 0) stages?.observe("respond", sharedNowMs() - startedMs);
    items.length = 0;
  }

  #cancel(item: RingItem): void {
    if (item.state === "settled") return;
    const isRunning = item.state === "inRing" && this.#running.isRunning(item.slot);
    this.#count(isRunning ? RING_CELL.cancelledRunning : RING_CELL.cancelledWaiting, 1);
    this.#drop(item);
    item.sink.failed(cancelled(item.sink));
  }

  #expire(item: RingItem): void {
    item.timer = undefined;
    if (item.state === "settled") return;
    const isRunning = item.state === "inRing" && this.#running.isRunning(item.slot);
    this.#count(isRunning ? RING_CELL.expiredRunning : RING_CELL.expiredWaiting, 1);
    this.#drop(item);
    item.sink.failed(deadlinePassed());
  }

  /** Takes an item out; its rows in the ring stay, for nobody. */
  #drop(item: RingItem): void {
    if (item.state === "inRing") this.#port.abandon(item.slot, item.size);
    else {
      this.#countWaiting(item, -1);
      this.#count(RING_CELL.unanswered, -item.size);
    }
    this.#settle(item);
  }

  #settle(item: RingItem): void {
    item.state = "settled";
    item.request = undefined;
    item.unlisten?.();
    if (item.timer?.isPending === true) this.#deadlines.cancel(item.timer);
  }

  /** Nothing will be published any more. */
  #ended(error: BatcherError | undefined): void {
    const why =
      error === undefined
        ? new ServerError("unavailable", "the server is draining: try another one")
        : fromRingError(error);
    this.#endedBy ??= why;
    const items = [...this.#waiting, ...this.#inRing.flat()];
    this.#waiting = [];
    for (const list of this.#inRing) list.length = 0;
    this.#cells[RING_CELL.unanswered] = 0;
    this.#cells[RING_CELL.waitingRequests] = 0;
    this.#cells[RING_CELL.waitingExamples] = 0;
    for (const item of items) {
      if (item.state === "settled") continue;
      this.#settle(item);
      item.sink.failed(why);
    }
    // A drain may wait for those that waited, though all of them had been cancelled.
    this.#onPlaced();
  }

  /** Examples of all frontends that no batch has that runs. */
  #waitingExamples(): number {
    let unanswered = 0;
    for (const cells of this.#frontends) unanswered += cells[RING_CELL.unanswered] as number;
    return Math.max(0, unanswered - this.#running.examples);
  }

  #checkIds(request: ScoringRequest): void {
    const wrong = this.#gatherPlan.findOutOfVocabulary(request.ids, request.batch);
    if (wrong !== undefined) throw this.#outOfRange(wrong);
  }

  #outOfRange({ feature, example, position, id }: OutOfVocabularyId): ServerError {
    const input = this.plan.inputs[feature + 1] as InputPlan;
    (this.#outOfVocabulary[input.index] as number) += 1;
    return outOfRange(input, example, position, id);
  }

  #count(cell: number, by: number): void {
    (this.#cells[cell] as number) += by;
  }

  #countWaiting({ size }: RingItem, sign: 1 | -1): void {
    this.#count(RING_CELL.waitingRequests, sign);
    this.#count(RING_CELL.waitingExamples, sign * size);
  }
}

function cancelled(sink: ScoreSink): unknown {
  const { reason } = sink;
  return reason instanceof ServerError ? reason : new ServerError("cancelled", "the request was cancelled");
}

function deadlinePassed(): ServerError {
  return new ServerError("deadline_exceeded", "the deadline passed before the request was scored");
}
