import { existsSync } from "node:fs";
import type { Gauge } from "./gauge.ts";
import { MonitorError } from "./monitor-error.ts";
import { Proc } from "./proc.ts";
import type { ProcStat } from "./proc-text.ts";
import { ProcessTree } from "./process-tree.ts";
import { systemConstants, type SystemConstants } from "./system-constants.ts";
import { ThreadLedger } from "./thread-ledger.ts";
import { unknownOptions } from "./unknown-options.ts";

/** Time between PSS readings is at least this many times what one takes, so that they cost 2 % of a CPU at most. */
const PSS_COST_FACTOR = 50;

/** Options of {@link startMonitor}. */
export interface MonitorOptions {
  /** The process to watch, with all its descendants; or several with `pids`. One of the two is needed. */
  readonly pid?: number;
  readonly pids?: readonly number[];
  /** Between samples, milliseconds, 10 to 60,000. Default 200. */
  readonly intervalMs?: number;
  /**
   * Between readings of PSS and threads, milliseconds, 10 to 600,000. Default 2,000. Reading PSS makes the kernel walk
   * all pages (tens of milliseconds for a process of some GB), so it is read less often where it is slow.
   */
  readonly pssIntervalMs?: number;
  /** Whether snapshots and the result tell CPU time by thread name. Default false. */
  readonly threads?: boolean;
  /** Further quantities to sample. Default none. */
  readonly gauges?: readonly Gauge[];
}

const OPTION_NAMES = Object.keys({
  pid: true,
  pids: true,
  intervalMs: true,
  pssIntervalMs: true,
  threads: true,
  gauges: true,
} satisfies Record<keyof MonitorOptions, true>);

/** The tree at one moment. Counts are since the monitor started, and never fall. */
export interface Snapshot {
  /** Of the machine's monotonic clock (`process.hrtime`). */
  readonly timeNs: number;
  /** CPU time of all processes, those that ended too; in steps of the kernel's clock tick (10 ms a process). */
  readonly cpuMicros: number;
  /** Resident memory: pages shared by processes count in each of them. */
  readonly rssBytes: number;
  /**
   * Proportional set size: pages shared by n processes count 1/n in each. As last read, see `pssAgeMs`. Where a process
   * may not be read, its RSS stands in, and `pssIncomplete` is true.
   */
  readonly pssBytes: number;
  readonly pssAgeMs: number;
  readonly pssIncomplete: boolean;
  /** Processes that have not ended. */
  readonly processes: number;
  /** Voluntary and involuntary, of all threads; of threads that ended between two readings, what was last seen. */
  readonly contextSwitches: number;
  /** With `threads`: CPU time by thread name since the threads began, microseconds. */
  readonly threadCpuMicros?: Readonly<Record<string, number>>;
  readonly gauges?: Readonly<Record<string, number>>;
}

/** One of the samples taken in between, at `intervalMs`. */
export interface Sample {
  readonly timeNs: number;
  readonly cpuMicros: number;
  readonly rssBytes: number;
  /** Only in samples for which PSS was read. */
  readonly pssBytes?: number;
  readonly processes: number;
  readonly gauges?: Readonly<Record<string, number>>;
}

/** All that a monitor saw. */
export interface MonitorResult {
  readonly samples: readonly Sample[];
  readonly peakRssBytes: number;
  readonly peakPssBytes: number;
  /** Why `peakPssBytes` is too high, where RSS had to stand in for PSS. */
  readonly pssNote?: string;
  /** CPU time from start to stop. */
  readonly cpuMicros: number;
  readonly contextSwitches: number;
  /**
   * With `threads`: CPU time from start to stop by thread name, microseconds. Threads are read with PSS: what one did between
   * the last reading and its end is not in it.
   */
  readonly threadCpuMicros?: Readonly<Record<string, number>>;
  readonly startNs: number;
  readonly stopNs: number;
  readonly peakGauges: Readonly<Record<string, number>>;
  /** What monitoring itself took, on this process's main thread: all, and readings of PSS alone. */
  readonly samplingMicros: number;
  readonly pssReadingMicros: number;
  readonly pssReadings: number;
}

/** A running monitor. */
export interface Monitor {
  /**
   * Looks now, synchronously: put it exactly between two phases. `freshPss` reads PSS too, which takes its time after the
   * other readings were taken; without it the last reading stands.
   */
  mark(options?: { readonly freshPss?: boolean }): Snapshot;
  /** Samples once more and ends. Calling it again returns the same result. */
  stop(): MonitorResult;
}

/** Whether processes can be monitored here, and if not, why. */
export function monitorAvailability(
  platform: NodeJS.Platform = process.platform,
): { readonly available: true } | { readonly available: false; readonly reason: string } {
  if (platform !== "linux") {
    return {
      available: false,
      reason: `CPU and memory of processes are not available on ${platform}: they are read from Linux's /proc`,
    };
  }
  if (!existsSync("/proc/self/stat")) return { available: false, reason: "/proc is not mounted" };
  return { available: true };
}

/** What a monitor works with; a test gives its own. */
export interface MonitorSystem {
  readonly proc: Proc;
  readonly constants: SystemConstants;
  readonly nowNs: () => number;
  /** Calls `run` each `intervalMs`; returns how to end that. */
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/**
 * Watches a process and all its descendants, until `stop`.
 *
 * Throws {@link MonitorError}: `not_available` on systems other than Linux, `no_process` where a pid doesn't exist,
 * `invalid_options`.
 */
export function startMonitor(options: MonitorOptions): Monitor {
  const availability = monitorAvailability();
  if (!availability.available) throw new MonitorError("not_available", availability.reason);
  return new TreeMonitor(options, {
    proc: new Proc(),
    constants: systemConstants(),
    nowNs: () => Number(process.hrtime.bigint()),
    every: (intervalMs, run) => {
      const timer = setInterval(run, intervalMs);
      // A monitor that is forgotten must not keep the program alive.
      timer.unref();
      return () => clearInterval(timer);
    },
  });
}

/** @internal The monitor itself, on a system given from outside. */
export class TreeMonitor implements Monitor {
  readonly #system: MonitorSystem;
  readonly #options: Required<Omit<MonitorOptions, "pid">>;
  readonly #tree: ProcessTree;
  readonly #threads: ThreadLedger;
  readonly #cancel: () => void;
  readonly #startNs: number;
  readonly #firstTicks: number;
  readonly #firstSwitches: number;
  readonly #firstThreadMicros: Readonly<Record<string, number>>;
  readonly #samples: Sample[] = [];
  readonly #peakGauges: Record<string, number> = {};
  #peakRssBytes = 0;
  #peakPssBytes = 0;
  #pss = { bytes: 0, atNs: 0, unreadable: 0 };
  #mostUnreadable = 0;
  #pssDueNs = 0;
  #samplingNs = 0;
  #pssReadingNs = 0;
  #pssReadings = 0;
  #result: MonitorResult | undefined;

  constructor(options: MonitorOptions, system: MonitorSystem) {
    this.#options = fillOptions(options);
    this.#system = system;
    const { pids, intervalMs } = this.#options;
    for (const pid of pids) {
      if (system.proc.stat(pid) === undefined) throw new MonitorError("no_process", `there is no process ${pid}`);
    }
    this.#tree = new ProcessTree(system.proc, pids);
    this.#threads = new ThreadLedger(system.proc);
    this.#startNs = system.nowNs();
    const processes = this.#tree.refresh();
    this.#firstTicks = this.#tree.cpuTicks;
    this.#readPss(processes);
    this.#firstSwitches = this.#threads.contextSwitches;
    this.#firstThreadMicros = this.#threads.cpuMicrosByName();
    this.#record(this.#startNs, processes, true);
    this.#samplingNs = system.nowNs() - this.#startNs;
    this.#cancel = system.every(intervalMs, () => this.#sample(false));
  }

  mark(options: { readonly freshPss?: boolean } = {}): Snapshot {
    const timeNs = this.#system.nowNs();
    const processes = this.#tree.refresh();
    // Threads first, as close to the CPU time as can be; PSS is slow.
    this.#threads.refresh(processes.map((stat) => stat.pid));
    if (options.freshPss === true) this.#readPss(processes);
    const { rssBytes, gauges } = this.#record(timeNs, processes, options.freshPss === true);
    this.#samplingNs += this.#system.nowNs() - timeNs;
    return {
      timeNs,
      cpuMicros: this.#cpuMicros(),
      rssBytes,
      pssBytes: this.#pss.bytes,
      pssAgeMs: Math.max(0, timeNs - this.#pss.atNs) / 1e6,
      pssIncomplete: this.#pss.unreadable > 0,
      processes: running(processes),
      contextSwitches: this.#threads.contextSwitches - this.#firstSwitches,
      ...(this.#options.threads ? { threadCpuMicros: this.#threads.cpuMicrosByName() } : {}),
      ...(gauges === undefined ? {} : { gauges }),
    };
  }

  stop(): MonitorResult {
    if (this.#result !== undefined) return this.#result;
    this.#cancel();
    this.#sample(true);
    for (const gauge of this.#options.gauges) gauge.close?.();
    const unreadable = this.#mostUnreadable;
    this.#result = {
      samples: this.#samples,
      peakRssBytes: this.#peakRssBytes,
      peakPssBytes: this.#peakPssBytes,
      ...(unreadable === 0
        ? {}
        : {
            pssNote: `PSS of ${unreadable} processes cannot be read, their RSS stands in: shared pages count more than once`,
          }),
      cpuMicros: this.#cpuMicros(),
      contextSwitches: this.#threads.contextSwitches - this.#firstSwitches,
      ...(this.#options.threads ? { threadCpuMicros: this.#threadMicrosSinceStart() } : {}),
      startNs: this.#startNs,
      stopNs: this.#samples.at(-1)?.timeNs ?? this.#startNs,
      peakGauges: this.#peakGauges,
      samplingMicros: this.#samplingNs / 1000,
      pssReadingMicros: this.#pssReadingNs / 1000,
      pssReadings: this.#pssReadings,
    };
    return this.#result;
  }

  #sample(last: boolean): void {
    const timeNs = this.#system.nowNs();
    const processes = this.#tree.refresh();
    // At the end the processes may be gone already: what was read before stands then.
    const readPss = timeNs >= this.#pssDueNs || (last && processes.length > 0);
    if (readPss) this.#readPss(processes);
    this.#record(timeNs, processes, readPss);
    this.#samplingNs += this.#system.nowNs() - timeNs;
  }

  #readPss(processes: readonly ProcStat[]): void {
    const fromNs = this.#system.nowNs();
    let bytes = 0;
    let unreadable = 0;
    for (const stat of processes) {
      const pss = this.#system.proc.pss(stat.pid);
      if (pss.kind === "bytes") bytes += pss.bytes;
      if (pss.kind !== "unreadable") continue;
      bytes += stat.rssPages * this.#system.constants.pageBytes;
      unreadable++;
    }
    const toNs = this.#system.nowNs();
    this.#threads.refresh(processes.map((stat) => stat.pid));
    this.#pss = { bytes, atNs: toNs, unreadable };
    this.#mostUnreadable = Math.max(this.#mostUnreadable, unreadable);
    this.#peakPssBytes = Math.max(this.#peakPssBytes, bytes);
    this.#pssReadings++;
    this.#pssReadingNs += toNs - fromNs;
    this.#pssDueNs = toNs + Math.max(this.#options.pssIntervalMs * 1e6, (toNs - fromNs) * PSS_COST_FACTOR);
  }

  #record(
    timeNs: number,
    processes: readonly ProcStat[],
    withPss: boolean,
  ): { readonly rssBytes: number; readonly gauges: Record<string, number> | undefined } {
    const rssBytes = processes.reduce((sum, stat) => sum + stat.rssPages, 0) * this.#system.constants.pageBytes;
    this.#peakRssBytes = Math.max(this.#peakRssBytes, rssBytes);
    const gauges = this.#readGauges();
    this.#samples.push({
      timeNs,
      cpuMicros: this.#cpuMicros(),
      rssBytes,
      ...(withPss ? { pssBytes: this.#pss.bytes } : {}),
      processes: running(processes),
      ...(gauges === undefined ? {} : { gauges }),
    });
    return { rssBytes, gauges };
  }

  #readGauges(): Record<string, number> | undefined {
    if (this.#options.gauges.length === 0) return undefined;
    const values: Record<string, number> = {};
    for (const gauge of this.#options.gauges) {
      const value = gauge.read();
      if (value === undefined) continue;
      values[gauge.name] = value;
      this.#peakGauges[gauge.name] = Math.max(this.#peakGauges[gauge.name] ?? Number.NEGATIVE_INFINITY, value);
    }
    return values;
  }

  #threadMicrosSinceStart(): Record<string, number> {
    const first = this.#firstThreadMicros;
    return Object.fromEntries(
      Object.entries(this.#threads.cpuMicrosByName()).map(([name, micros]) => [
        name,
        Math.round(micros - (first[name] ?? 0)),
      ]),
    );
  }

  #cpuMicros(): number {
    return Math.round(((this.#tree.cpuTicks - this.#firstTicks) * 1e6) / this.#system.constants.ticksPerS);
  }
}

/** A zombie has ended; only its parent has not asked for it yet. */
function running(processes: readonly ProcStat[]): number {
  return processes.filter((stat) => stat.state !== "Z").length;
}

function fillOptions(options: MonitorOptions): Required<Omit<MonitorOptions, "pid">> {
  const { intervalMs = 200, pssIntervalMs = 2000, threads = false, gauges = [] } = options;
  const pids = [...(options.pid === undefined ? [] : [options.pid]), ...(options.pids ?? [])];
  const problems = unknownOptions(options, OPTION_NAMES);
  if (pids.length === 0) problems.push("pid or pids must name a process");
  for (const pid of pids) {
    if (!Number.isSafeInteger(pid) || pid < 1) problems.push(`pid must be an integer from 1, got ${String(pid)}`);
  }
  if (!(intervalMs >= 10 && intervalMs <= 60_000)) {
    problems.push(`intervalMs must be from 10 to 60000, got ${String(intervalMs)}`);
  }
  if (!(pssIntervalMs >= 10 && pssIntervalMs <= 600_000)) {
    problems.push(`pssIntervalMs must be from 10 to 600000, got ${String(pssIntervalMs)}`);
  }
  if (problems.length > 0) throw new MonitorError("invalid_options", problems.join("; "));
  return { pids, intervalMs, pssIntervalMs, threads, gauges };
}
