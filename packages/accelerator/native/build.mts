/**
 * `node native/build.mts [--required]`: builds the PJRT binding for this machine, if it is not built from these sources yet.
 * Where that is not possible it says why in one line and succeeds, for the other kinds of device need none; with
 * `--required` it fails instead.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { platformName } from "../src/pjrt-native.ts";

const native = path.dirname(fileURLToPath(import.meta.url));
const sources = path.join(native, "pjrt");
const target = path.join(native, "target");
const stampFile = path.join(target, "built.json");
const required = process.argv.includes("--required");

const FLAGS: readonly string[] = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden"];

function giveUp(reason: string, details = ""): never {
  if (required) {
    console.error(`${details}PJRT binding not built: ${reason}`);
    process.exit(1);
  }
  console.error(`PJRT binding not built (${reason}): the pjrt device won't work, the others will`);
  process.exit(0);
}

function headersFolder(): string {
  try {
    const { include_dir: folder } = createRequire(import.meta.url)("node-api-headers") as { include_dir: string };
    return folder;
  } catch {
    return giveUp("node-api-headers is not installed: run npm ci");
  }
}

function sourceHash(compiler: string): string {
  const hash = createHash("sha256").update(JSON.stringify([compiler, FLAGS]));
  for (const file of readdirSync(sources).sort()) {
    hash.update(`\0${file}\0`).update(readFileSync(path.join(sources, file)));
  }
  return hash.digest("hex");
}

function isBuilt(outputs: readonly string[], hash: string): boolean {
  if (!outputs.every((output) => existsSync(output)) || !existsSync(stampFile)) return false;
  const stamp = JSON.parse(readFileSync(stampFile, "utf8")) as { outputs?: string[]; hash?: string };
  return stamp.hash === hash && JSON.stringify(stamp.outputs) === JSON.stringify(outputs);
}

function compile(compiler: string, args: readonly string[], output: string): void {
  // A process may have the old one loaded: replace it in one step.
  const temporary = `${output}.${process.pid}.tmp`;
  const built = spawnSync(compiler, [...FLAGS, ...args, "-o", temporary], { cwd: sources, encoding: "utf8" });
  if (built.error) giveUp(`no C++ compiler: ${compiler} can't be run`);
  if (built.status !== 0) {
    const first = built.stderr.split("\n").find((line) => /error/i.test(line));
    giveUp(first?.trim() ?? `${compiler} failed`, built.stderr);
  }
  renameSync(temporary, output);
}

function main(): void {
  // A plugin is a shared object that dlopen loads.
  if (process.platform === "win32") giveUp("Windows has no PJRT plugins");
  const compiler = process.env["CXX"] ?? "c++";
  const binding = path.join(native, `dlrm-pjrt.${platformName()}.node`);
  const client = path.join(target, "pjrt-client");
  const hash = sourceHash(compiler);
  if (isBuilt([binding, client], hash)) {
    console.error("PJRT binding: up to date");
    return;
  }
  console.error(`PJRT binding: building with ${compiler} (some ten seconds)`);
  mkdirSync(target, { recursive: true });
  const library = ["plugin.cc", "client.cc", "executable.cc"];
  const functions = ["binding.cc", "binding-client.cc", "binding-program.cc", "binding-call.cc", "thread-slice.cc"];
  const undefinedSymbols = process.platform === "darwin" ? ["-undefined", "dynamic_lookup"] : [];
  compile(
    compiler,
    ["-shared", ...undefinedSymbols, `-I${headersFolder()}`, ...library, ...functions, "-ldl"],
    binding,
  );
  compile(compiler, [...library, "bench-client.cc", "-ldl"], client);
  writeFileSync(stampFile, JSON.stringify({ outputs: [binding, client], hash }));
  console.error(`PJRT binding: built ${path.basename(binding)}`);
}

main();
