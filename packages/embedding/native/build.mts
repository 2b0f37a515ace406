/**
 * `node native/build.mts [--required]`: builds the native gather kernel for this machine, if it is not built from these sources yet.
 * Where that is not possible it says why in one line and succeeds, for there is a portable kernel; with `--required` it fails instead.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { platformName } from "../src/native-binding.ts";

const LIBRARY = { linux: "libdlrm_embedding_binding.so", darwin: "libdlrm_embedding_binding.dylib" }[
  process.platform as string
];
/** The workspace's `rust-version`. */
const OLDEST_RUST = [1, 89] as const;

const native = path.dirname(fileURLToPath(import.meta.url));
const required = process.argv.includes("--required");
const stampFile = path.join(native, "target", "built.json");

function sourceHash(): string {
  const hash = createHash("sha256");
  const files = readdirSync(native, { recursive: true, encoding: "utf8" })
    .filter((file) => !file.startsWith("target") && /\.(rs|toml|lock)$/.test(file))
    .sort();
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(readFileSync(path.join(native, file)))
      .update("\0");
  return hash.digest("hex");
}

function giveUp(reason: string, details = ""): never {
  if (required) {
    console.error(`${details}native gather kernel not built: ${reason}`);
    process.exit(1);
  }
  console.error(`native gather kernel not built (${reason}): using the portable kernel, which is slower`);
  process.exit(0);
}

function isBuilt(output: string, hash: string): boolean {
  if (!existsSync(output) || !existsSync(stampFile)) return false;
  const stamp = JSON.parse(readFileSync(stampFile, "utf8")) as { output?: string; hash?: string };
  return stamp.output === output && stamp.hash === hash;
}

/** Why cargo failed, in a few words. */
function reasonOf(log: string): string {
  if (/linker `?[^`\n]*`? not found/.test(log)) return "no linker: install a C compiler";
  const first = log.split("\n").find((line) => line.trim().startsWith("error"));
  return first?.trim() ?? "cargo failed";
}

function main(): void {
  const output = path.join(native, `dlrm-embedding.${platformName()}.node`);
  const hash = sourceHash();
  if (isBuilt(output, hash)) {
    console.error("native gather kernel: up to date");
    return;
  }
  if (LIBRARY === undefined && process.platform !== "win32") giveUp(`${process.platform} is not supported`);
  const version = spawnSync("rustc", ["--version"], { cwd: native, encoding: "utf8" });
  if (version.error || version.status !== 0) giveUp("Rust is not installed");
  const [, major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(version.stdout)?.map(Number) ?? [];
  if (major < OLDEST_RUST[0] || (major === OLDEST_RUST[0] && minor < OLDEST_RUST[1])) {
    giveUp(`Rust ${major}.${minor} is older than ${OLDEST_RUST.join(".")}`);
  }
  console.error("native gather kernel: building with cargo (about a minute the first time)");
  const cargo = spawnSync("cargo", ["build", "--release", "--locked", "-p", "dlrm-embedding-binding"], {
    cwd: native,
    encoding: "utf8",
    env: { ...process.env, CARGO_TARGET_DIR: path.join(native, "target") },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (cargo.error) giveUp("cargo is not installed");
  if (cargo.status !== 0) giveUp(reasonOf(cargo.stderr), cargo.stderr);
  mkdirSync(path.dirname(output), { recursive: true });
  // A process may be loading the old one: replace it in one step.
  const temporary = `${output}.${process.pid}.tmp`;
  copyFileSync(path.join(native, "target", "release", LIBRARY ?? "dlrm_embedding_binding.dll"), temporary);
  renameSync(temporary, output);
  writeFileSync(stampFile, JSON.stringify({ output, hash }));
  console.error(`native gather kernel: built ${path.basename(output)}`);
}

main();
