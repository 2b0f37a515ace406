import { fork } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { AcceleratorError } from "./errors.ts";
import { fromPjrtError, requirePjrtNative } from "./pjrt-error.ts";
import type { CreateOptions, PjrtClientDescription } from "./pjrt-native.ts";
import { isTpuPlugin, pluginEnvironment } from "./plugin-environment.ts";
import { readTpuChips } from "./tpu-topology.ts";

/** What a plugin is asked with. */
export interface PluginQuestion {
  readonly pluginPath: string;
  readonly createOptions: CreateOptions;
  readonly environment: Readonly<Record<string, string>>;
}

/** From the child, once. */
export type ProbeAnswer =
  | { readonly description: PjrtClientDescription }
  | { readonly error: { readonly code: string | undefined; readonly message: string } };

// The file that stands beside this one, in the form this one is in: source or built.
const CHILD_FILE: string = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./pjrt-probe-child.ts" : "./pjrt-probe-child.js", import.meta.url),
);

const MAX_STDERR_LENGTH = 8192;

const PROBE_TIMEOUT_MS = 60_000;
const NO_CHIP_PROBE_TIMEOUT_MS = 4_500;

/** How long a plugin may take to find its device, milliseconds: less for libtpu where no TPU is to be seen. */
export function defaultProbeTimeoutMs(pluginPath: string, tpuChips: () => readonly string[] = readTpuChips): number {
  return isTpuPlugin(pluginPath) && tpuChips().length === 0 ? NO_CHIP_PROBE_TIMEOUT_MS : PROBE_TIMEOUT_MS;
}

/** Questions that were answered with a device, in this process. */
const answered: Map<string, PjrtClientDescription> = new Map();

interface ProbeOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Lets a child process find the plugin's device, because a plugin may block for minutes, and may end the process it is in.
 * Rejects with `provider_unavailable` (also after `timeoutMs`), `plugin_not_found` or `plugin_invalid`. A plugin that
 * found its device is not asked again in this process.
 */
export async function probePjrtPlugin(question: PluginQuestion, options: ProbeOptions): Promise<PjrtClientDescription> {
  requirePjrtNative();
  const { pluginPath, createOptions, environment } = question;
  const asked = JSON.stringify([pluginPath, describeOptions(createOptions), environment]);
  const known = answered.get(asked);
  if (known !== undefined) return known;
  const answer = await ask(question, options);
  if ("error" in answer) {
    const error = Object.assign(new Error(answer.error.message), { code: answer.error.code });
    throw fromPjrtError(error, "provider_unavailable", `can't open a device of ${pluginPath}`);
  }
  answered.set(asked, answer.description);
  return answer.description;
}

/** What `findPjrtDevice` found. */
export interface FoundPjrtDevice {
  /** `cpu`, `cuda`, `tpu`, … */
  readonly platform: string;
  /** Of the first device: `TPU v6e`, … */
  readonly deviceKind: string;
  /** How many the plugin has. */
  readonly devices: number;
  /** Of the plugin, `0.81` or later. */
  readonly apiVersion: string;
}

/**
 * Asks a plugin for its devices, in a child process: neither is the plugin loaded here, nor is a device held afterwards.
 * `timeoutMs` is 60,000 by default, but 4,500 for libtpu on a machine without a TPU. Rejects with `not_installed`,
 * `plugin_not_found`, `plugin_invalid` or `provider_unavailable`.
 */
export async function findPjrtDevice(
  pluginPath: string,
  { timeoutMs = defaultProbeTimeoutMs(pluginPath), signal }: { timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<FoundPjrtDevice> {
  const file = path.resolve(pluginPath);
  const question = { pluginPath: file, createOptions: {}, environment: pluginEnvironment(file, undefined) };
  const { platformName, deviceKind, devices, apiVersion } = await probePjrtPlugin(question, { timeoutMs, signal });
  return { platform: platformName, deviceKind, devices, apiVersion };
}

/** Options as they cross to the child: JSON has no bigints. */
function describeOptions(options: CreateOptions): string {
  return JSON.stringify(options, (_name, value: unknown) =>
    typeof value === "bigint" ? { integer: String(value) } : value,
  );
}

export function readOptions(text: string): CreateOptions {
  return JSON.parse(text, (_name, value: unknown) =>
    typeof value === "object" && value !== null && "integer" in value ? BigInt(String(value.integer)) : value,
  ) as CreateOptions;
}

function ask(question: PluginQuestion, { timeoutMs, signal }: ProbeOptions): Promise<ProbeAnswer> {
  const { pluginPath, createOptions, environment } = question;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(cancelled(signal));
      return;
    }
    const child = fork(CHILD_FILE, [pluginPath, describeOptions(createOptions)], {
      // Nothing of what this process runs with concerns the child, which imports its neighbours only.
      execArgv: [],
      env: { ...process.env, ...environment },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    let stderr = "";
    let answer: ProbeAnswer | undefined;
    const settle = (action: () => void): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      child.removeAllListeners();
      // A process that is in the kernel's hands may take its time to die: it holds nothing of ours.
      child.kill("SIGKILL");
      if (child.connected) child.disconnect();
      child.stderr?.destroy();
      child.unref();
      action();
    };
    const timer = setTimeout(
      () => {
        const message = `${pluginPath} found no device within probeTimeoutMs, ${timeoutMs} ms, and was given up${advice(pluginPath)}${lastLine(stderr)}`;
        settle(() => reject(new AcceleratorError("provider_unavailable", message)));
      },
      Math.min(timeoutMs, 2 ** 31 - 1),
    );
    const onAbort = (): void => {
      if (signal) settle(() => reject(cancelled(signal)));
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-MAX_STDERR_LENGTH);
    });
    child.once("message", (message) => {
      answer = message as ProbeAnswer;
    });
    child.once("error", (error) => {
      settle(() => reject(AcceleratorError.from(error, "open_failed", "no child process can be started")));
    });
    // Only when it is gone is the device free for this process.
    child.once("close", (exitCode, exitSignal) => {
      settle(() => {
        if (answer !== undefined) {
          resolve(answer);
          return;
        }
        const end = exitSignal === null ? `ended with code ${exitCode}` : `was ended by ${exitSignal}`;
        const message = `${pluginPath} ended its process: it ${end}${lastLine(stderr)}`;
        reject(new AcceleratorError("provider_unavailable", message));
      });
    });
  });
}

function advice(pluginPath: string): string {
  return isTpuPlugin(pluginPath) ? ": set TPU_SKIP_MDS_QUERY=1 if the metadata server does not answer" : "";
}

function lastLine(stderr: string): string {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  return line === "" ? "" : `; its last words: ${line}`;
}

function cancelled(signal: AbortSignal): AcceleratorError {
  return new AcceleratorError("cancelled", "opening the device was cancelled", { cause: signal.reason });
}
