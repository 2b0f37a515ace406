import type { Histogram } from "node:perf_hooks";
import type { BatcherStats } from "@dlrm/batcher";
import type { Phase } from "./health-state.ts";
import type { ServerStats } from "./server-counters.ts";
import { STAGE_BINS, STAGES, type StageTimes } from "./stage-times.ts";

/** What is told of batches and of what waits for them. */
export type BatchMetrics = Pick<
  BatcherStats,
  | "batches"
  | "failedBatches"
  | "batchedSize"
  | "paddedSize"
  | "inFlightBatches"
  | "cancelledBeforeRunItems"
  | "cancelledInRunItems"
  | "expiredBeforeRunItems"
  | "expiredInRunItems"
  | "queuedItems"
  | "queuedSize"
> & {
  /** Turned away for want of room. */
  readonly overloadedItems: number;
};

/** What the server knows of itself at one moment. */
export interface ServerSnapshot {
  readonly phase: Phase;
  readonly stats: ServerStats;
  readonly stages: StageTimes;
  readonly inFlightRequests: number;
  /** Ids that are no row of their table, by input. */
  readonly outOfVocabulary: ReadonlyMap<string, number>;
  /** Undefined while no model is loaded. */
  readonly batcher: BatchMetrics | undefined;
  /** How often the device was lost, and opened again. */
  readonly deviceLosses: number;
  readonly deviceReopenings: number;
  /** By thread, nanoseconds. */
  readonly eventLoopDelays: ReadonlyMap<string, Pick<Histogram, "max" | "percentile">>;
  readonly memory: NodeJS.MemoryUsage;
  readonly cpu: NodeJS.CpuUsage;
}

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

type Sample = readonly [labels: string, value: number];

/** Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function metricsText(snapshot: ServerSnapshot): string {
  const { phase, stats, batcher, eventLoopDelays, memory, cpu } = snapshot;
  const lines: string[] = [];
  const metric = (name: string, type: "counter" | "gauge", help: string, samples: readonly Sample[]): void => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const [labels, value] of samples) lines.push(`${name}${labels} ${value}`);
  };
  const one = (value: number): readonly Sample[] => [["", value]];

  metric("dlrm_ready", "gauge", "1 while the server takes requests.", one(phase === "serving" ? 1 : 0));
  metric("dlrm_requests_total", "counter", "Predict requests answered, by gRPC code.", [
    [label("code", "OK"), stats.answeredRequests],
    ...Object.entries(stats.refusedRequests).map(([code, count]): Sample => [label("code", code), count]),
  ]);
  metric("dlrm_examples_total", "counter", "Examples answered with scores.", one(stats.answeredExamples));
  metric("dlrm_in_flight_requests", "gauge", "Requests that are in the server.", one(snapshot.inFlightRequests));
  metric(
    "dlrm_out_of_vocabulary_total",
    "counter",
    "Requests refused for an id that is no row of its table, by input.",
    [...snapshot.outOfVocabulary].map(([input, count]): Sample => [label("input", input), count]),
  );
  stageHistograms(lines, snapshot.stages);
  if (batcher !== undefined) {
    metric(
      "dlrm_batches_total",
      "counter",
      "Batches, by why they were not held longer.",
      Object.entries(batcher.batches).map(([reason, count]): Sample => [label("reason", reason), count]),
    );
    metric("dlrm_batches_failed_total", "counter", "Batches that the device failed on.", one(batcher.failedBatches));
    metric("dlrm_batched_examples_total", "counter", "Examples in batches.", one(batcher.batchedSize));
    metric(
      "dlrm_padding_examples_total",
      "counter",
      "Rows of batches that are padding.",
      one(batcher.paddedSize - batcher.batchedSize),
    );
    metric(
      "dlrm_dropped_requests_total",
      "counter",
      "Requests, or parts, dropped before they were run or in the run.",
      [
        ['{why="cancelled",when="waiting"}', batcher.cancelledBeforeRunItems],
        ['{why="cancelled",when="running"}', batcher.cancelledInRunItems],
        ['{why="deadline",when="waiting"}', batcher.expiredBeforeRunItems],
        ['{why="deadline",when="running"}', batcher.expiredInRunItems],
        ['{why="overload",when="waiting"}', batcher.overloadedItems],
      ],
    );
    metric("dlrm_queued_requests", "gauge", "Requests that wait for a batch.", one(batcher.queuedItems));
    metric("dlrm_queued_examples", "gauge", "Examples that wait for a batch.", one(batcher.queuedSize));
    metric("dlrm_in_flight_batches", "gauge", "Batches on the device.", one(batcher.inFlightBatches));
  }
  metric("dlrm_device_losses_total", "counter", "Times that the device was lost.", one(snapshot.deviceLosses));
  metric("dlrm_device_reopenings_total", "counter", "Times that it was opened again.", one(snapshot.deviceReopenings));
  metric(
    "dlrm_event_loop_delay_seconds",
    "gauge",
    "Delay of a thread's event loop since the last scrape.",
    [...eventLoopDelays].flatMap(([thread, delay]): Sample[] => [
      [`{thread="${thread}",quantile="0.5"}`, delay.percentile(50) / 1e9],
      [`{thread="${thread}",quantile="0.99"}`, delay.percentile(99) / 1e9],
      [`{thread="${thread}",quantile="1"}`, delay.max / 1e9],
    ]),
  );
  metric("process_resident_memory_bytes", "gauge", "Resident memory.", one(memory.rss));
  metric("nodejs_heap_used_bytes", "gauge", "JavaScript heap in use.", one(memory.heapUsed));
  metric("nodejs_heap_total_bytes", "gauge", "JavaScript heap.", one(memory.heapTotal));
  metric("nodejs_external_memory_bytes", "gauge", "Memory of buffers and native objects.", one(memory.external));
  metric("process_cpu_seconds_total", "counter", "CPU time of all threads.", one((cpu.user + cpu.system) / 1e6));
  return `${lines.join("\n")}\n`;
}

function stageHistograms(lines: string[], stages: StageTimes): void {
  const name = "dlrm_stage_seconds";
  lines.push(
    `# HELP ${name} Time in a stage: decode, gather and queue of each request, device and respond of each batch.`,
    `# TYPE ${name} histogram`,
  );
  for (const stage of STAGES) {
    let total = 0;
    for (const [bin, count] of stages.counts(stage).entries()) {
      total += count;
      // Bounds of fewer bins are as good to look at, and much less to keep.
      if (bin % 2 === 1 && bin < STAGE_BINS - 1) {
        lines.push(`${name}_bucket{stage="${stage}",le="${2 ** bin / 1e6}"} ${total}`);
      }
    }
    lines.push(
      `${name}_bucket{stage="${stage}",le="+Inf"} ${total}`,
      `${name}_sum{stage="${stage}"} ${stages.sumMs(stage) / 1000}`,
      `${name}_count{stage="${stage}"} ${total}`,
    );
  }
}

function label(name: string, value: string): string {
  return `{${name}="${value.replaceAll(/[\\"\n]/gu, (char) => (char === "\n" ? "\\n" : `\\${char}`))}"}`;
}
