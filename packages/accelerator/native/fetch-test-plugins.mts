/**
 * `node native/fetch-test-plugins.mts [--libtpu]`: downloads two of XLA's CPU plugins, of the oldest and the newest supported version of
 * the PJRT API, from the Python package index (some 60 MB each), checks them, and unpacks them to where the tests look. With `--libtpu`
 * also libtpu (137 MB, under Google Cloud's terms), for the tests of a machine without a TPU.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { LIBTPU, TEST_PLUGINS, type TestPlugin } from "../test/test-plugins.ts";

function run(command: string, args: readonly string[], cwd: string): void {
  const { error, status, stderr } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "ignore", "pipe"],
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}: ${stderr.trim()}`);
}

function fetch({ requirement, wheel, wheelOptions, sha256, folder }: TestPlugin): void {
  mkdirSync(path.dirname(folder), { recursive: true });
  const staging = mkdtempSync(`${folder}.`);
  try {
    const options = ["--quiet", "--no-deps", "--only-binary", ":all:", ...wheelOptions];
    run("python3", ["-m", "pip", "download", ...options, "-d", ".", requirement], staging);
    const found = createHash("sha256")
      .update(readFileSync(path.join(staging, wheel)))
      .digest("hex");
    if (found !== sha256) throw new Error(`${wheel} has SHA-256 ${found}, expected ${sha256}`);
    run("python3", ["-m", "zipfile", "-e", wheel, "."], staging);
    rmSync(path.join(staging, wheel));
    renameSync(staging, folder);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

if (process.platform !== "linux" || process.arch !== "x64") {
  console.error(`no test plugins for ${process.platform}-${process.arch}: tests that need one are skipped`);
} else {
  for (const plugin of process.argv.includes("--libtpu") ? [...TEST_PLUGINS, LIBTPU] : TEST_PLUGINS) {
    if (existsSync(plugin.pluginPath)) {
      console.error(`${plugin.name}: there`);
      continue;
    }
    console.error(`${plugin.name}: downloading ${plugin.requirement}`);
    fetch(plugin);
    console.error(`${plugin.name}: unpacked to ${plugin.folder}`);
  }
}
