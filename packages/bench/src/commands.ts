import path from "node:path";
import type { Arm, ArmCommand } from "@dlrm/arm-contract";
import type { ModelSpec } from "@dlrm/model";
import { formatCpuList } from "./cpu-list.ts";
import { DENSE_NETWORK_ENTRY } from "./dense-network-process.ts";
import { denseNetworkTask } from "./dense-network-task.ts";
import { loadTask } from "./load-options.ts";
import { LOAD_ENTRY } from "./load-process.ts";
import type { Machine } from "./machine.ts";
import { pinned } from "./pinning.ts";
import { environmentPluginPath } from "./pjrt-plugin-path.ts";
import type { LoadStep } from "./plan.ts";
import type { BenchSettings } from "./settings.ts";
import { shellText } from "./shell-text.ts";

export const HOST = "127.0.0.1";

/** `<work_dir>/bundles/<preset>[-<cap>]`. */
export function bundleDir({ workDir, preset, maxVocabSize }: BenchSettings): string {
  return path.join(workDir, "bundles", maxVocabSize === undefined ? preset : `${preset}-${maxVocabSize}`);
}

/** What arms keep between runs. */
export function cacheDir({ workDir }: BenchSettings): string {
  return path.join(workDir, "cache");
}

/** The server of an arm, pinned where that is possible. */
export function serverCommand(settings: BenchSettings, machine: Machine, arm: Arm, port: number): ArmCommand {
  const command = arm.command({
    bundleDir: bundleDir(settings),
    host: HOST,
    port,
    platform: settings.platform,
    device: settings.device,
    numThreads: settings.numThreads,
    numProcesses: settings.numProcesses,
    maxBatchSize: settings.maxBatchSize,
    cacheDir: cacheDir(settings),
  });
  return pinned(command, settings.serverCpus, machine.taskset);
}

/** The export that `model` does, as a command. */
export function exportCommandText(settings: BenchSettings): string {
  const cap = settings.maxVocabSize === undefined ? [] : ["--max-vocab-size", String(settings.maxVocabSize)];
  return shellText({
    file: "dlrm-model",
    args: ["export", "--preset", settings.preset, ...cap, "--out", bundleDir(settings)],
    env: {},
  });
}

/** The process that compares devices. */
export function denseNetworkCommandText(settings: BenchSettings, machine: Machine): string {
  const args = [
    ...process.execArgv,
    DENSE_NETWORK_ENTRY,
    JSON.stringify(denseNetworkTask(bundleDir(settings), settings)),
  ];
  return shellText(pinned({ file: process.execPath, args, env: {} }, settings.serverCpus, machine.taskset));
}

/** The load process of a step; the features of the model are left out of the text. */
export function loadCommandText(settings: BenchSettings, machine: Machine, spec: ModelSpec, step: LoadStep): string {
  const { load } = step;
  const mode =
    load.mode === "closed"
      ? ({ kind: "closed", concurrency: load.concurrency } as const)
      : ({ kind: "open", offeredRps: 0 } as const);
  const { shape: _, ...task } = loadTask(settings, machine, spec, step, mode, { host: HOST, port: 0 });
  const shown = load.mode === "closed" ? mode : { ...mode, offeredRps: `${load.peakFraction} of the peak` };
  const short = { ...task, mode: shown, port: "PORT", shape: `of ${spec.name}` };
  const command = {
    file: process.execPath,
    args: [...process.execArgv, LOAD_ENTRY, JSON.stringify(short)],
    env: {},
  };
  return shellText(pinned(command, settings.clientCpus, machine.taskset));
}

/** What `dlrm-bench` was asked for, with every default filled in, and with the plugin that the environment names where one counts. */
export function benchCommandText(settings: BenchSettings): string {
  const { idDistribution } = settings;
  const args = [
    ["--platform", settings.platform],
    ...(settings.device === undefined ? [] : [["--device", settings.device]]),
    ["--preset", settings.preset],
    ...(settings.maxVocabSize === undefined ? [] : [["--max_vocab_size", String(settings.maxVocabSize)]]),
    ["--arms", settings.arms.join(",")],
    ["--request_batch_sizes", settings.requestBatchSizes.join(",")],
    ["--concurrencies", settings.concurrencies.join(",")],
    ["--duration", String(settings.durationS)],
    ["--warmup", String(settings.warmupS)],
    ["--repeats", String(settings.repeats)],
    ["--open_loop", settings.openLoop ? "on" : "off"],
    ["--connections", String(settings.connections)],
    ["--server_cpus", formatCpuList(settings.serverCpus)],
    ["--client_cpus", formatCpuList(settings.clientCpus)],
    ["--num_threads", String(settings.numThreads)],
    ["--num_processes", String(settings.numProcesses)],
    ["--client_processes", String(settings.clientProcesses)],
    ["--max_batch_size", String(settings.maxBatchSize)],
    ["--id_distribution", idDistribution === "uniform" ? "uniform" : `zipf:${idDistribution.zipf}`],
    ["--seed", String(settings.seed)],
  ];
  return shellText({ file: "dlrm-bench", args: args.flat(), env: pluginVariable(settings) });
}

function pluginVariable({ platform, device }: BenchSettings): Record<string, string> {
  const named = environmentPluginPath();
  const counts = device === "pjrt" || (platform !== "sim" && device?.startsWith("pjrt:") !== true);
  return named === undefined || !counts ? {} : { PJRT_PLUGIN_PATH: named };
}
