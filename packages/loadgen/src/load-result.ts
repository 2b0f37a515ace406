import { LatencyHistogram } from "./latency-histogram.ts";
import type { FilledLoadOptions } from "./load-options.ts";
import type { ShareReport } from "./load-share.ts";
import { scenarioOutcome, type ScenarioOutcome } from "./scenario.ts";
import type { Share } from "./share-plan.ts";
import { judge, type LoadVerdict } from "./verdict.ts";

/** Latencies of the requests that were answered with OK. */
export interface LatencySummary {
  /** Requests counted here. */
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
  readonly meanMs: number;
  /** HDR histogram, V2, compressed, base64; values are microseconds, 3 significant digits. */
  readonly histogram: string;
}

/** What a run measured. Times named `…Ns` are of the machine's monotonic clock (`process.hrtime`). */
export interface LoadResult {
  /** Requests answered with OK inside the measured window. */
  readonly requests: number;
  /** Their examples. */
  readonly examples: number;
  /** Length of the measured window. */
  readonly elapsedS: number;
  readonly examplesPerS: number;
  readonly requestsPerS: number;
  /**
   * From the intended send time, of all requests whose intended send time lies in the window (also those that were
   * answered after it). In a closed loop that is the time of sending.
   */
  readonly latency: LatencySummary;
  /** The same requests, from the actual send time. */
  readonly latencyFromSend: LatencySummary;
  /** How far actual sends were behind their intended times; all 0 in a closed loop. */
  readonly sendLag: { readonly p50Ms: number; readonly p99Ms: number; readonly maxMs: number };
  /** Requests of the window that failed, by gRPC code name; lost connections are UNAVAILABLE, answers of another length WRONG_LENGTH. */
  readonly errors: Readonly<Record<string, number>>;
  /** The first error of a process, as `CODE: message`. */
  readonly errorSample?: string;
  /** Requests of the window in all: latency.count + errors + dropped. */
  readonly intended: number;
  /** Open loop: sends that were not made, because too many requests were outstanding. */
  readonly dropped: number;
  /** Open loop: sends more than `lateAfterMicros` behind their time. */
  readonly late: number;
  /** Requests without an answer when the time to wait was over; they are in `errors` too. */
  readonly unanswered: number;
  /** CPU time of the load processes in the measured window. */
  readonly clientCpuMicros: number;
  /**
   * The part of their CPU that the load processes used in the window: of one CPU a process, or of the CPUs they may use
   * where those are fewer.
   */
  readonly clientCpuFraction: number;
  /** Memory of all requests made before the run, and their number. */
  readonly poolBytes: number;
  readonly poolRequests: number;
  /** The measured window. */
  readonly measuredFromNs: number;
  readonly measuredToNs: number;
  /** What was used in effect. */
  readonly processes: number;
  readonly connections: number;
  readonly reconnects: number;
  /** CPUs of the load processes, by the kernel, such as `1`; undefined where the system does not say. */
  readonly cpus?: string;
  /** Whether the load processes are held to `cpus` of the options. */
  readonly pinned: boolean;
  /** Why not, where that was asked for. */
  readonly notPinnedReason?: string;
  /** Options with their defaults filled in. */
  readonly settings: FilledLoadOptions;
  readonly verdict: LoadVerdict;
  /** Of Poisson arrivals of MLPerf's sample sizes. */
  readonly scenario?: ScenarioOutcome;
}

/** What the parent knows of a run beside the reports of its processes. */
export interface RunFacts {
  readonly options: FilledLoadOptions;
  readonly shares: readonly Share[];
  readonly reports: readonly ShareReport[];
  readonly poolBytes: number;
  readonly poolRequests: number;
  readonly measuredFromMicros: number;
  /** CPUs that the load processes may use together. */
  readonly cpuCount: number;
  readonly cpus: string | undefined;
  readonly notPinnedReason: string | undefined;
}

/** Adds up the processes' reports; histograms are merged before anything is read from them. */
export function combineReports(facts: RunFacts): LoadResult {
  const { options, shares, reports } = facts;
  const { durationS } = options;
  const sum = (value: (report: ShareReport) => number): number => reports.reduce((total, r) => total + value(r), 0);
  const requests = sum((report) => report.completed);
  const examples = sum((report) => report.completedExamples);
  const sendLag = LatencyHistogram.merge(reports.map((report) => report.sendLag));
  const errors: Record<string, number> = {};
  for (const report of reports) {
    for (const [name, count] of Object.entries(report.errors)) errors[name] = (errors[name] ?? 0) + count;
  }
  const errorSample = reports.find((report) => report.errorSample !== undefined)?.errorSample;
  // Each process is measured over its own reading of the window, which ends when its timer runs.
  const cpuShare = sum((report) => (report.cpuElapsedMicros > 0 ? report.cpuMicros / report.cpuElapsedMicros : 0));
  const measured = {
    requests,
    examples,
    elapsedS: durationS,
    examplesPerS: examples / durationS,
    requestsPerS: requests / durationS,
    latency: summarize(LatencyHistogram.merge(reports.map((report) => report.latency))),
    latencyFromSend: summarize(LatencyHistogram.merge(reports.map((report) => report.latencyFromSend))),
    sendLag: {
      p50Ms: sendLag.percentileMicros(50) / 1000,
      p99Ms: sendLag.percentileMicros(99) / 1000,
      maxMs: sendLag.maxMicros / 1000,
    },
    errors,
    ...(errorSample === undefined ? {} : { errorSample }),
    intended: sum((report) => report.intended),
    dropped: sum((report) => report.dropped),
    late: sum((report) => report.late),
    unanswered: sum((report) => report.unanswered),
    clientCpuMicros: sum((report) => report.cpuMicros),
    clientCpuFraction: cpuShare / Math.min(shares.length, facts.cpuCount),
    poolBytes: facts.poolBytes,
    poolRequests: facts.poolRequests,
    measuredFromNs: Math.round(facts.measuredFromMicros * 1000),
    measuredToNs: Math.round((facts.measuredFromMicros + durationS * 1e6) * 1000),
    processes: shares.length,
    connections: shares.reduce((total, share) => total + share.connections, 0),
    reconnects: sum((report) => report.reconnects),
    ...(facts.cpus === undefined ? {} : { cpus: facts.cpus }),
    pinned: options.cpus !== undefined && facts.notPinnedReason === undefined,
    ...(facts.notPinnedReason === undefined ? {} : { notPinnedReason: facts.notPinnedReason }),
    settings: options,
  };
  const verdict = judge(measured);
  const scenario = scenarioOutcome(options, { ...measured, valid: verdict.valid });
  return { ...measured, verdict, ...(scenario === undefined ? {} : { scenario }) };
}

function summarize(histogram: LatencyHistogram): LatencySummary {
  const ms = (percentile: number): number => histogram.percentileMicros(percentile) / 1000;
  return {
    count: histogram.count,
    p50Ms: ms(50),
    p90Ms: ms(90),
    p99Ms: ms(99),
    p999Ms: ms(99.9),
    maxMs: histogram.maxMicros / 1000,
    meanMs: histogram.meanMicros / 1000,
    histogram: histogram.encode(),
  };
}
