import { RING_CELL, sumCells } from "./frontend-cells.ts";
import { FrontendThreads } from "./frontend-threads.ts";
import type { ModelHost } from "./model-host.ts";
import { DENSE_INPUT } from "./model-plan.ts";
import { RingDevice } from "./ring-device.ts";
import { COUNTER_CELLS, ServerCounters, type ServerStats } from "./server-counters.ts";
import type { ServerSide, ServerSideParts, SideSnapshot } from "./server-side.ts";
import { STAGE_CELLS, StageTimes } from "./stage-times.ts";

/** Several frontends in threads of their own; this thread takes their batches from the ring to the device. */
export class ThreadedFrontends implements ServerSide {
  readonly #parts: ServerSideParts;
  readonly #threads: FrontendThreads;
  /** The cells that this thread writes: times of the device. */
  readonly #stageCells = new Float64Array(STAGE_CELLS);
  #device: RingDevice | undefined;
  #inputNames: readonly string[] = [];

  constructor(parts: ServerSideParts) {
    this.#parts = parts;
    this.#threads = new FrontendThreads(parts);
  }

  get frontends(): number {
    return this.#parts.options.frontends;
  }

  get inFlightRequests(): number {
    return this.#threads.inFlightRequests;
  }

  get stats(): ServerStats {
    const counters = this.#threads.cells.map((cells) => cells.counters);
    return new ServerCounters(sumCells(counters, COUNTER_CELLS)).stats;
  }

  async listen(): Promise<number> {
    return await this.#threads.listen();
  }

  async serve(model: ModelHost): Promise<void> {
    const { options, logger, timesStages, onFatal } = this.#parts;
    this.#device = new RingDevice(model, {
      options,
      logger,
      stages: timesStages ? new StageTimes(this.#stageCells) : undefined,
      // Others open themselves again, and say when they are lost.
      onDeviceLost: typeof options.device === "function" ? onFatal : doNothing,
    });
    this.#inputNames = [DENSE_INPUT, ...model.bundle.spec.features.map(({ name }) => name)];
    await this.#threads.serve(model, this.#device);
  }

  snapshot(): SideSnapshot {
    const cells = this.#threads.cells;
    const ring = sumCells(
      cells.map((each) => each.ring),
      Object.keys(RING_CELL).length,
    );
    const stages = sumCells([this.#stageCells, ...cells.map((each) => each.stages)], STAGE_CELLS);
    const unknownIds = sumCells(this.#threads.outOfVocabulary, this.#inputNames.length);
    const of = (cell: keyof typeof RING_CELL): number => ring[RING_CELL[cell]] as number;
    const device = this.#device;
    return {
      stats: this.stats,
      stages: new StageTimes(stages),
      inFlightRequests: this.inFlightRequests,
      eventLoopDelays: this.#threads.eventLoopDelays,
      outOfVocabulary: new Map(
        this.#inputNames
          .map((name, index) => [name, unknownIds[index] as number] as const)
          .filter(([, count]) => count > 0),
      ),
      batcher: device && {
        ...device.stats(),
        cancelledBeforeRunItems: of("cancelledWaiting"),
        cancelledInRunItems: of("cancelledRunning"),
        expiredBeforeRunItems: of("expiredWaiting"),
        expiredInRunItems: of("expiredRunning"),
        overloadedItems: of("refused"),
        queuedItems: of("waitingRequests"),
        queuedSize: Math.max(0, of("unanswered") - device.running.examples),
      },
    };
  }

  async drain(): Promise<void> {
    await this.#threads.drain();
  }

  async close(): Promise<void> {
    await this.#threads.close();
    await this.#device?.close();
  }
}

function doNothing(): void {}
