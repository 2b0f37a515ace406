import { allowedCpuCount, allowedCpus, findTaskset } from "./cpu-affinity.ts";
import { formatCpuList, parseCpuList } from "./cpu-list.ts";
import { livePercentileMicros } from "./live-latency.ts";
import { LoadChild } from "./load-child.ts";
import { LoadError } from "./load-error.ts";
import { fillLoadOptions, type FilledLoadOptions, type LoadOptions } from "./load-options.ts";
import type { LoadProgress } from "./load-progress.ts";
import { combineReports, type LoadResult } from "./load-result.ts";
import type { ShareProgress } from "./load-share.ts";
import { nowMicros } from "./monotonic-clock.ts";
import { meanExamples } from "./request-size.ts";
import { planShares } from "./share-plan.ts";

/** From the order to start until load begins: time for the order to reach every process. */
const LEAD_MICROS = 100_000;

/**
 * Loads a prediction server and measures it.
 *
 * Starts the load processes, has each make its requests and connections, lets all begin at one agreed time, and merges
 * what they measured. The promise settles once all of them are gone.
 *
 * Rejects with a {@link LoadError}: `invalid_options`, `connect_failed`, `pinning_failed`, `process_failed`, `aborted`.
 * Requests that fail do not reject: they are counted in the result.
 */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const filled = fillLoadOptions(options);
  const { signal } = options;
  if (signal?.aborted === true) throw aborted(signal);
  const pin = findPin(filled);
  const cpuCount = pin.pin === undefined ? allowedCpuCount() : (parseCpuList(pin.pin.cpus)?.length ?? 1);
  const shares = planShares(filled, cpuCount);
  const children = shares.map(() => new LoadChild(pin.pin));
  let stop: (() => void) | undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(aborted(signal));
  });
  // Handled here too, or an abort between two waits would be an unhandled rejection.
  stopped.catch(() => {});
  if (stop !== undefined) signal?.addEventListener("abort", stop);
  const all = <T>(work: readonly Promise<T>[]): Promise<T[]> => Promise.race([Promise.all(work), stopped]);
  try {
    await all(children.map((child) => child.next("up")));
    const cpus = verifyPinning(children, pin.pin?.cpus);
    const ready = all(children.map((child) => child.next("ready")));
    for (const [i, child] of children.entries()) child.send({ kind: "prepare", options: filled, share: shares[i]! });
    const pools = await ready;

    const startMicros = nowMicros() + LEAD_MICROS;
    const { onProgress } = options;
    const progress = onProgress && new ProgressSum(filled, children.length, startMicros, onProgress);
    const done = all(children.map((child) => child.next("done")));
    for (const child of children) {
      child.onMessage = (message) => {
        if (message.kind === "progress") progress?.add(message.progress);
      };
      child.send({ kind: "run", startMicros, progress: progress !== undefined });
    }
    const reports = (await done).map((message) => message.report);
    return combineReports({
      options: filled,
      shares,
      reports,
      poolBytes: pools.reduce((sum, pool) => sum + pool.poolBytes, 0),
      poolRequests: pools.reduce((sum, pool) => sum + pool.poolRequests, 0),
      measuredFromMicros: startMicros + filled.warmupS * 1e6,
      cpuCount,
      cpus,
      notPinnedReason: pin.reason,
    });
  } finally {
    if (stop !== undefined) signal?.removeEventListener("abort", stop);
    await Promise.all(children.map((child) => child.end()));
  }
}

function findPin(options: FilledLoadOptions): {
  readonly pin: { readonly taskset: string; readonly cpus: string } | undefined;
  readonly reason: string | undefined;
} {
  if (options.cpus === undefined) return { pin: undefined, reason: undefined };
  const taskset = findTaskset();
  if (taskset === undefined) {
    return { pin: undefined, reason: `there is no taskset on this system, CPUs ${options.cpus} are not held to` };
  }
  return { pin: { taskset, cpus: options.cpus }, reason: undefined };
}

/** Reads back where the processes may run; returns their CPUs. Throws where that is not what was asked for. */
function verifyPinning(children: readonly LoadChild[], asked: string | undefined): string | undefined {
  let found: string | undefined;
  for (const child of children) {
    const cpus = allowedCpus(child.pid);
    found = cpus === undefined ? undefined : formatCpuList(cpus);
    if (asked === undefined || found === undefined) continue;
    const expected = formatCpuList(parseCpuList(asked) ?? []);
    if (found !== expected) {
      throw new LoadError("pinning_failed", `load process ${child.pid} runs on CPUs ${found}, expected ${expected}`);
    }
  }
  return found;
}

function aborted(signal: AbortSignal | undefined): LoadError {
  return new LoadError("aborted", "the run was aborted", { cause: signal?.reason });
}

/** Adds the processes' counts up: a report of each makes one progress call. */
class ProgressSum {
  readonly #options: FilledLoadOptions;
  readonly #parts: number;
  readonly #startMicros: number;
  readonly #report: (progress: LoadProgress) => void;
  #round: ShareProgress[] = [];
  #answered = 0;
  #atMicros: number;

  constructor(
    options: FilledLoadOptions,
    parts: number,
    startMicros: number,
    report: (progress: LoadProgress) => void,
  ) {
    this.#options = options;
    this.#parts = parts;
    this.#startMicros = startMicros;
    this.#atMicros = startMicros;
    this.#report = report;
  }

  add(share: ShareProgress): void {
    this.#round.push(share);
    if (this.#round.length < this.#parts) return;
    const round = this.#round;
    this.#round = [];
    const { warmupS, durationS, requestSize } = this.#options;
    const now = nowMicros();
    const elapsedS = Math.max(0, (now - this.#startMicros) / 1e6);
    const answered = round.reduce((sum, part) => sum + part.ok, 0);
    const requestsPerS = ((answered - this.#answered) * 1e6) / Math.max(1, now - this.#atMicros);
    this.#answered = answered;
    this.#atMicros = now;
    const latency = round.flatMap((part) => part.latency);
    this.#report({
      phase: elapsedS < warmupS ? "warmup" : elapsedS < warmupS + durationS ? "measuring" : "draining",
      elapsedS,
      leftS: Math.max(0, warmupS + durationS - elapsedS),
      requestsPerS,
      examplesPerS: requestsPerS * meanExamples(requestSize),
      p50Ms: toMs(livePercentileMicros(latency, 50)),
      p99Ms: toMs(livePercentileMicros(latency, 99)),
      errors: round.reduce((sum, part) => sum + part.failed, 0),
    });
  }
}

function toMs(micros: number | undefined): number | undefined {
  return micros === undefined ? undefined : micros / 1000;
}
