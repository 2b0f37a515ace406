/** Where things are in this workspace, and how its scripts start programs. */
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root: string = path.resolve(fileURLToPath(import.meta.url), "../..");
export const binDir: string = path.join(root, "node_modules/.bin");

export interface WorkspacePackage {
  /** Folder, relative to the root: `packages/model`. */
  readonly dir: string;
  /** npm name: `@dlrm/model`. */
  readonly name: string;
  readonly manifest: {
    readonly bin?: Record<string, string>;
    readonly exports: Record<string, unknown>;
    readonly dependencies?: Record<string, string>;
    readonly peerDependencies?: Record<string, string>;
  };
}

export function workspacePackages(): WorkspacePackage[] {
  return globSync(["packages/*/package.json", "packages/arms/*/package.json"], { cwd: root })
    .sort()
    .map((file) => {
      const manifest = JSON.parse(readFileSync(path.join(root, file), "utf8")) as WorkspacePackage["manifest"] & {
        name: string;
      };
      return { dir: path.dirname(file), name: manifest.name, manifest };
    });
}

/** Runs a program with the workspace's own Node and tools first in PATH; returns its exit code. */
export function run(
  file: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): number {
  const env = { ...process.env, ...options.env, PATH: `${binDir}${path.delimiter}${process.env["PATH"] ?? ""}` };
  const { status, error } = spawnSync(file, args, { cwd: options.cwd ?? root, env, stdio: "inherit" });
  if (error !== undefined) console.error(`cannot start ${file}: ${error.message}`);
  return status ?? 1;
}

/** Like `run`, but ends this process with the program's exit code when that is not 0. */
export function runOrExit(
  file: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): void {
  const code = run(file, args, options);
  if (code !== 0) process.exit(code);
}

/** Builds the native parts where a toolchain is found; each says in one line why not elsewhere, and what is used instead. */
export function buildNativeParts(): void {
  for (const script of ["packages/embedding/native/build.mts", "packages/accelerator/native/build.mts"]) {
    runOrExit(process.execPath, [path.join(root, script)]);
  }
}
