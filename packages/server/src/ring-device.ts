import type { BatcherStats } from "@dlrm/batcher";
import { buryProducer, closeRing, drainRing, type RingBatch, RingConsumer } from "@dlrm/batcher/shared";
import type { Logger } from "pino";
import { bucketFor, isDeviceLost, type ModelHost } from "./model-host.ts";
import { ringFailure } from "./ring-failure.ts";
import { createScoringRing, RunningBatches, type ScoringRing, type ScoringSchema } from "./scoring-ring.ts";
import type { ResolvedOptions } from "./server-options.ts";
import type { StageTimes } from "./stage-times.ts";

export interface RingDeviceOptions {
  readonly options: ResolvedOptions;
  readonly logger: Logger;
  readonly stages: StageTimes | undefined;
  /** A device that does not open itself again is gone: nothing can be scored any more. */
  readonly onDeviceLost: (error: Error) => void;
}

/** Batches of all frontends, from the ring to the device, in the thread that owns the device. */
export class RingDevice {
  readonly ring: ScoringRing;
  readonly running: RunningBatches;
  readonly #host: ModelHost;
  readonly #load: RingDeviceOptions;
  readonly #consumer: RingConsumer<ScoringSchema>;
  readonly #ended: Promise<void>;

  constructor(host: ModelHost, load: RingDeviceOptions) {
    const { bundle, limits, buckets } = host;
    const { spec } = bundle;
    const { batching, batchTimeoutMicros, maxInFlightBatches = host.device.maxInFlight } = load.options;
    this.#host = host;
    this.#load = load;
    this.ring = createScoringRing({
      denseFeatures: spec.denseFeatures,
      pooledWidth: spec.features.length * spec.embeddingDim,
      maxBatchSize: limits.maxBatchSize,
      largestBucket: buckets.at(-1) as number,
      itemsAlone: batching === "off",
      maxInFlightBatches,
    });
    this.running = new RunningBatches(this.ring.slots);
    this.#consumer = new RingConsumer(this.ring, {
      policy: batching,
      batchTimeoutMicros,
      maxInFlightBatches,
      allowedBatchSizes: buckets,
      hooks: {
        onBatchEnd: ({ items, size, paddedSize, flushReason, oldestWaitMs }, runMs, error) => {
          load.logger.trace(
            { requests: items, examples: size, padded: paddedSize - size, flushReason, oldestWaitMs, runMs },
            error === undefined ? "batch" : "batch failed",
          );
        },
      },
    });
    this.#ended = this.#consumer.serve((batch) => this.#run(batch));
  }

  /** A frontend's thread has ended: what it had in the ring is for nobody. */
  bury(producerId: number): void {
    buryProducer(this.ring, producerId);
  }

  /** Runs what is in the ring without waiting for more; resolves when the last batch is out. */
  async drain(): Promise<void> {
    drainRing(this.ring);
    await this.#ended;
  }

  /** What is in the ring fails. */
  async close(): Promise<void> {
    closeRing(this.ring);
    await this.#ended;
  }

  /** The counts of batches; those of requests are the frontends'. */
  stats(): Pick<BatcherStats, "batches" | "failedBatches" | "batchedSize" | "paddedSize" | "inFlightBatches"> {
    const { batches, failedBatches, batchedSize, paddedSize, inFlightBatches } = this.#consumer.stats();
    return { batches, failedBatches, batchedSize, paddedSize, inFlightBatches };
  }

  async #run({ slot, size, inputs, outputs }: RingBatch<ScoringSchema>): Promise<void> {
    const { device, buckets } = this.#host;
    const { stages, onDeviceLost } = this.#load;
    const startedMs = performance.now();
    this.running.begin(slot, size);
    try {
      await device.execute(bucketFor(buckets, size), { ...inputs }, { ...outputs }, { rows: size });
      stages?.observe("device", performance.now() - startedMs);
    } catch (error) {
      if (isDeviceLost(error)) onDeviceLost(error);
      throw ringFailure(error);
    } finally {
      this.running.end(slot, size);
    }
  }
}
