import path from "node:path";
import { PLATFORMS, type Platform } from "@dlrm/arm-contract";
import { DEVICE_NAMES, isDeviceName } from "@dlrm/arm-engine";
import { DEFAULT_BUCKETS } from "@dlrm/model";
import { BenchError } from "./bench-error.ts";
import { formatCpuList, parseCpuList } from "./cpu-list.ts";
import type { FlagValues } from "./flags.ts";
import { defaultCpuSplit, type Machine } from "./machine.ts";
import { nearestName } from "./nearest-name.ts";

export type IdDistribution = "uniform" | { readonly zipf: number };

/** Everything a run is made of; nothing after `resolveSettings` fills in a default. */
export interface BenchSettings {
  readonly platform: Platform;
  /** What runs the dense network of the engine's arms, by the names of `dlrm-serve --device`; undefined is the platform's own. */
  readonly device: string | undefined;
  readonly preset: string;
  /** Cap on the rows of each table; undefined is the preset's own. */
  readonly maxVocabSize: number | undefined;
  readonly arms: readonly string[];
  /** Whether the arms were named; one that this machine cannot run is then a failure. */
  readonly armsNamed: boolean;
  readonly requestBatchSizes: readonly number[];
  readonly concurrencies: readonly number[];
  readonly durationS: number;
  readonly warmupS: number;
  readonly repeats: number;
  /** Whether Poisson load at shares of each arm's own peak follows its closed-loop sweep. */
  readonly openLoop: boolean;
  readonly connections: number;
  readonly serverCpus: readonly number[];
  readonly clientCpus: readonly number[];
  /** Of the dense network on the CPU; 0 is one for each CPU of the server. */
  readonly numThreads: number;
  readonly numProcesses: number;
  readonly clientProcesses: number;
  readonly maxBatchSize: number;
  readonly idDistribution: IdDistribution;
  readonly seed: number;
  readonly startTimeoutS: number;
  /** Absolute. */
  readonly workDir: string;
  readonly dryRun: boolean;
  /** Continue the run whose results are in `workDir`. */
  readonly resume: boolean;
}

/** What settings are checked against. */
export interface SettingsContext {
  readonly machine: Machine;
  readonly presets: readonly string[];
  readonly arms: readonly { readonly name: string; readonly platforms: readonly Platform[] }[];
  readonly currentDir: string;
}

const SMOKE: FlagValues = {
  platform: "cpu",
  preset: "dcnv2-smoke",
  arms: "engine,engine-batch,engine-nobatch,py",
  request_batch_sizes: "1,16",
  concurrencies: "1,8",
  duration: "2",
  warmup: "0.5",
  repeats: "1",
  open_loop: "off",
};

// What lies beyond is a slip of the hand, and would end in a machine without memory or a run without end.
const MAX_CALLERS = 65_536;
const MAX_THREADS = 1024;
const MAX_REPEATS = 1000;
/** Of a batch of the bundles that the bench makes, and of a request, which may not be larger: no server takes more. */
const MAX_EXAMPLES = Math.max(...DEFAULT_BUCKETS);
/** Of the load generator, which would say so once there is a model and a server. */
const ZIPF_EXPONENTS = { min: 0.01, max: 10 } as const;
const MAX_SECONDS = 86_400;

/** @throws BenchError `usage` that lists every problem. */
export function resolveSettings(flags: FlagValues, context: SettingsContext): BenchSettings {
  const given = flags["smoke"] === true ? { ...SMOKE, ...withoutUndefined(flags) } : flags;
  const read = new FlagReader(given);
  const platform = read.choice("platform", PLATFORMS, "cpu");
  const split = defaultCpuSplit(context.machine.cpus);
  const onPlatform = context.arms.filter((arm) => arm.platforms.includes(platform)).map((arm) => arm.name);
  const serverCpus = read.cpus("server_cpus", split.server, context.machine.cpus);
  const clientCpus = read.cpus("client_cpus", split.client, context.machine.cpus);
  const connections = read.integer("connections", 64, 1, MAX_CALLERS);
  const settings: BenchSettings = {
    platform,
    device: given["device"] === undefined ? undefined : read.device("device"),
    preset: read.choice("preset", context.presets, platform === "cpu" ? "dcnv2-lite" : "dcnv2-6m"),
    maxVocabSize: given["max_vocab_size"] === undefined ? undefined : read.integer("max_vocab_size", 1, 1),
    arms: read.names(
      "arms",
      onPlatform,
      context.arms.map((arm) => arm.name),
      platform,
    ),
    armsNamed: flags["arms"] !== undefined || flags["smoke"] === true,
    requestBatchSizes: read.integers("request_batch_sizes", [1, 16, 128], MAX_EXAMPLES),
    concurrencies: read.integers("concurrencies", [1, 4, 16, 64], MAX_CALLERS),
    durationS: read.number("duration", 10, 0.1, MAX_SECONDS),
    warmupS: read.number("warmup", 2, 0, MAX_SECONDS),
    repeats: read.integer("repeats", 3, 1, MAX_REPEATS),
    openLoop: read.choice("open_loop", ["on", "off"], "on") === "on",
    connections,
    serverCpus,
    clientCpus,
    numThreads: read.integer("num_threads", 0, 0, MAX_THREADS),
    numProcesses: read.integer("num_processes", Math.min(8, Math.max(1, serverCpus.length)), 1, MAX_THREADS),
    clientProcesses: read.integer(
      "client_processes",
      Math.min(8, connections, Math.max(1, clientCpus.length)),
      1,
      MAX_THREADS,
    ),
    maxBatchSize: read.integer("max_batch_size", 4096, 1, MAX_EXAMPLES),
    idDistribution: read.idDistribution("id_distribution"),
    seed: read.integer("seed", 1, 0),
    startTimeoutS: read.number("start_timeout", 300, 1, MAX_SECONDS),
    workDir: path.resolve(context.currentDir, read.text("work_dir", "bench-work")),
    dryRun: given["dry_run"] === true,
    resume: given["resume"] === true,
  };
  const largest = Math.max(...settings.requestBatchSizes);
  if (largest > settings.maxBatchSize) {
    read.problems.push(
      `--max_batch_size: expected at least the largest of --request_batch_sizes, ${largest}, got ${settings.maxBatchSize}`,
    );
  }
  if (settings.clientProcesses > settings.connections) {
    read.problems.push(
      `--client_processes: expected at most --connections, ${settings.connections}, got ${settings.clientProcesses}`,
    );
  }
  if (read.problems.length > 0) throw new BenchError("usage", read.problems.join("\n"));
  return settings;
}

function withoutUndefined(flags: FlagValues): FlagValues {
  return Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined));
}

/** Reads values one by one and collects what is wrong with them; a value that is wrong reads as its default. */
class FlagReader {
  readonly problems: string[] = [];
  readonly #values: FlagValues;

  constructor(values: FlagValues) {
    this.#values = values;
  }

  text(name: string, fallback: string): string {
    const value = this.#values[name];
    if (typeof value !== "string") return fallback;
    return value === "" ? this.#wrong(name, "a value that is not empty", value, fallback) : value;
  }

  choice<Choice extends string>(name: string, choices: readonly Choice[], fallback: Choice): Choice {
    const value = this.text(name, fallback);
    const choice = choices.find((item) => item === value);
    return choice ?? this.#wrong(name, `one of ${choices.join(", ")}`, value, fallback);
  }

  number(name: string, fallback: number, min: number, max: number): number {
    const text = this.text(name, String(fallback));
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (value > max) return this.#wrong(name, `a number of at most ${max}`, text, fallback);
    return value >= min ? value : this.#wrong(name, `a number of at least ${min}`, text, fallback);
  }

  integer(name: string, fallback: number, min: number, max = Infinity): number {
    const text = this.text(name, String(fallback));
    const value = toInteger(text, min);
    if (value === undefined) return this.#wrong(name, `a whole number of at least ${min}`, text, fallback);
    return value > max ? this.#wrong(name, `a whole number of at most ${max}`, text, fallback) : value;
  }

  /** Ascending, each once. */
  integers(name: string, fallback: readonly number[], max = Infinity): readonly number[] {
    const text = this.text(name, fallback.join(","));
    const values = text.split(",").map((part) => toInteger(part.trim(), 1));
    if (values.includes(undefined)) {
      return this.#wrong(name, "whole numbers of at least 1, separated by commas", text, fallback);
    }
    if ((values as number[]).some((value) => value > max)) {
      return this.#wrong(name, `whole numbers of at most ${max}`, text, fallback);
    }
    return [...new Set(values as number[])].sort((a, b) => a - b);
  }

  cpus(name: string, fallback: readonly number[], allowed: readonly number[]): readonly number[] {
    const text = this.text(name, formatCpuList(fallback));
    const cpus = parseCpuList(text);
    if (cpus === undefined) return this.#wrong(name, "a list of CPUs, as in 0-3,8", text, fallback);
    if (cpus.every((cpu) => allowed.includes(cpu))) return cpus;
    return this.#wrong(name, `CPUs among ${formatCpuList(allowed)}`, text, fallback);
  }

  names(name: string, fallback: readonly string[], known: readonly string[], platform: string): readonly string[] {
    const value = this.#values[name];
    if (typeof value !== "string") return fallback;
    const names = [...new Set(value.split(",").map((part) => part.trim()))].filter((part) => part !== "");
    if (names.length === 0) return this.#wrong(name, "at least one arm", value, fallback);
    for (const item of names) {
      if (fallback.includes(item)) continue;
      const nearest = nearestName(item, fallback);
      const expected = known.includes(item)
        ? `arms that run on ${platform} (${fallback.join(", ")})`
        : `arms among ${fallback.join(", ")}`;
      this.#wrong(name, expected, item, fallback, nearest);
    }
    return names;
  }

  idDistribution(name: string): IdDistribution {
    const text = this.text(name, "uniform");
    if (text === "uniform") return "uniform";
    const exponent = /^zipf:(\d+(?:\.\d+)?)$/.exec(text)?.[1];
    if (exponent === undefined) {
      return this.#wrong(name, "uniform or zipf:<exponent>, as in zipf:1.05", text, "uniform");
    }
    const { min, max } = ZIPF_EXPONENTS;
    const zipf = Number(exponent);
    if (zipf >= min && zipf <= max) return { zipf };
    return this.#wrong(name, `an exponent from ${min} to ${max}`, text, "uniform");
  }

  /** A name that `dlrm-serve --device` takes. */
  device(name: string): string {
    const text = this.text(name, "simulated");
    return isDeviceName(text) ? text : this.#wrong(name, `one of ${DEVICE_NAMES.join(", ")}`, text, text);
  }

  #wrong<Value>(name: string, expected: string, got: string, fallback: Value, nearest?: string): Value {
    const hint = nearest === undefined ? "" : `; did you mean ${nearest}?`;
    this.problems.push(`--${name}: expected ${expected}, got ${JSON.stringify(got)}${hint}`);
    return fallback;
  }
}

function toInteger(text: string, min: number): number | undefined {
  if (!/^\d{1,15}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= min ? value : undefined;
}
