import { Frontend } from "./frontend.ts";
import { allocateFrontendCells, frontendCells } from "./frontend-cells.ts";
import { LoadedModel } from "./loaded-model.ts";
import type { ModelHost } from "./model-host.ts";
import type { ServerStats } from "./server-counters.ts";
import type { ServerSide, ServerSideParts, SideSnapshot } from "./server-side.ts";
import { StageTimes } from "./stage-times.ts";

/**
 * One frontend in the server's own thread, with a batcher in the same thread: nothing is waited for across threads but the
 * device.
 */
export class LocalFrontend implements ServerSide {
  readonly frontends = 1;
  readonly #parts: ServerSideParts;
  readonly #frontend: Frontend;
  #model: LoadedModel | undefined;

  constructor(parts: ServerSideParts) {
    this.#parts = parts;
    const { options, health, logger, timesStages } = parts;
    const { transport, transportLimits } = options;
    const cells = frontendCells(allocateFrontendCells());
    this.#frontend = new Frontend({ transport, transportLimits, timesStages, cells, health, logger });
  }

  get inFlightRequests(): number {
    return this.#frontend.activity.inFlight;
  }

  get stats(): ServerStats {
    return this.#frontend.counters.stats;
  }

  async listen(host: string, port: number): Promise<number> {
    return await this.#frontend.transport.listen(host, port);
  }

  async serve(host: ModelHost): Promise<void> {
    const { options, logger, onFatal } = this.#parts;
    // Others open themselves again, and say when they are lost.
    const onDeviceLost = typeof options.device === "function" ? onFatal : doNothing;
    this.#model = await LoadedModel.load(host, { options, logger, stages: this.#frontend.stages, onDeviceLost });
    this.#frontend.add(this.#model);
  }

  snapshot(): SideSnapshot {
    const model = this.#model;
    return {
      stats: this.stats,
      stages: this.#frontend.stages ?? new StageTimes(),
      inFlightRequests: this.inFlightRequests,
      // Its thread is the server's own.
      eventLoopDelays: new Map<string, never>(),
      outOfVocabulary: model?.outOfVocabulary ?? new Map<string, number>(),
      batcher: model?.batchMetrics(),
    };
  }

  async drain(): Promise<void> {
    const { activity, transport } = this.#frontend;
    // The batcher waits for others no longer once there can be none.
    await activity.until(() => activity.allScoring);
    await this.#model?.drain();
    await activity.until(() => activity.inFlight === 0);
    // Watchers of the health are let go only now: while there was work they were told NOT_SERVING.
    this.#parts.health.advance("closed");
    await transport.close();
  }

  async close(): Promise<void> {
    const { transport } = this.#frontend;
    const closed = transport.close();
    transport.destroy();
    await closed;
    this.#model?.close();
  }
}

function doNothing(): void {}
