import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg, release, totalmem, type } from "node:os";
import path from "node:path";
import type { SummaryEnvironment } from "@dlrm/reporter";
import { cpuInstructionSets } from "./cpu-instruction-sets.ts";
import { describeGatherKernel } from "./gather-kernel.ts";
import { environmentPluginPath } from "./pjrt-plugin-path.ts";

/** What should not change during a run. */
export async function describeMachine(): Promise<SummaryEnvironment> {
  const gitCommit = await ownCommit();
  const cpuModel = cpus()[0]?.model;
  const instructionSets = cpuInstructionSets();
  const pjrtPluginPath = environmentPluginPath();
  return {
    ...(cpuModel === undefined ? {} : { cpuModel }),
    ...(instructionSets === undefined ? {} : { cpuInstructionSets: instructionSets }),
    cpuCount: cpus().length,
    memoryBytes: totalmem(),
    kernel: `${type()} ${release()}`,
    node: process.versions.node,
    ...(gitCommit === undefined ? {} : { gitCommit }),
    ...(pjrtPluginPath === undefined ? {} : { pjrtPluginPath }),
  };
}

/** All of that, with the gather kernel and, for Python arms, the versions of `python` and its packages. */
export async function describeEnvironment(python: string | undefined): Promise<SummaryEnvironment> {
  const { packages, ...ofPython } = python === undefined ? {} : await describePython(python);
  return {
    ...(await describeMachine()),
    ...ofPython,
    packages: { ...nodePackages(), ...packages },
    ...(await describeGatherKernel()),
  };
}

/** Versions of npm packages that matter to the arms, as far as they are here. */
function nodePackages(): Record<string, string> {
  const { resolve } = createRequire(import.meta.url);
  const versions: Record<string, string> = {};
  for (const name of ["onnxruntime-node"]) {
    try {
      const { version } = JSON.parse(readFileSync(resolve(`${name}/package.json`), "utf8")) as { version: string };
      versions[name] = version;
    } catch {
      // Not installed, or it does not tell.
    }
  }
  return versions;
}

/** The commit that this package is of; undefined where it was installed. */
async function ownCommit(): Promise<string | undefined> {
  const folder = import.meta.dirname;
  if (folder.split(path.sep).includes("node_modules")) return undefined;
  const commit = await outputOf("git", ["-C", folder, "rev-parse", "HEAD"]);
  if (commit === undefined) return undefined;
  const changes = await outputOf("git", ["-C", folder, "status", "--porcelain", "--untracked-files=no"]);
  return changes === "" ? commit : `${commit} with changes`;
}

/** Version of a Python and of the packages that matter to the arms, as far as it has them. */
export async function describePython(python: string): Promise<{ python?: string; packages?: Record<string, string> }> {
  const script = [
    "import sys, json, importlib.metadata as m",
    "p = {}",
    "for n in ('numpy', 'jax', 'jaxlib', 'grpcio', 'protobuf', 'safetensors', 'onnxruntime'):",
    "  try: p[n] = m.version(n)",
    "  except m.PackageNotFoundError: pass",
    "print(json.dumps({'python': sys.version.split()[0], 'packages': p}))",
  ].join("\n");
  const output = await outputOf(python, ["-c", script]);
  if (output === undefined) return {};
  try {
    return JSON.parse(output) as { python: string; packages: Record<string, string> };
  } catch {
    return {};
  }
}

export function loadAverage(): number {
  return Math.round((loadavg()[0] ?? 0) * 100) / 100;
}

/** `env.txt`: one `name: value` a line. */
export function renderEnvironment(environment: SummaryEnvironment): string {
  return `${Object.entries(environment)
    .flatMap(([name, value]) => linesOf(name, value))
    .join("\n")}\n`;
}

function linesOf(name: string, value: unknown): string[] {
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, inner]) => linesOf(`${name}.${key}`, inner));
  }
  if (value === undefined) return [];
  return [`${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`];
}

/** What a program prints, trimmed; undefined if it cannot run or fails. */
function outputOf(file: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(file, [...args], { stdio: ["ignore", "pipe", "ignore"], timeout: 30_000 });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (part: string) => (output += part));
    child.once("error", () => resolve(undefined));
    child.once("close", (code) => resolve(code === 0 ? output.trim() : undefined));
  });
}
