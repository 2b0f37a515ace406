import { existsSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { ArmPyError } from "./arm-py-error.ts";
import type { PythonInterpreter } from "./python-interpreter.ts";
import { runTool } from "./run-tool.ts";

/** Installs the same wheels as pip in a fifth of the time; the version is pinned as those of the packages are. */
const UV_VERSION = "0.13.9";

export interface PackageInstallation {
  /** The virtual environment to be made; what is there is removed. */
  readonly dir: string;
  /** The environment's interpreter, once it is made. */
  readonly python: string;
  readonly interpreter: PythonInterpreter;
  /** Requirements files. What they don't pin is not installed, and then missed by the check. */
  readonly requirements: readonly string[];
  /** Directory in which uv is kept, for all environments. */
  readonly cacheDir: string;
  /** One line of progress. */
  readonly report: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Makes a virtual environment with the packages of the requirements files, wheels only: by uv where it can be had, else by pip.
 *
 * @throws ArmPyError `install_failed`, or the signal's reason
 */
export async function installPackages(installation: PackageInstallation): Promise<void> {
  const uv = await findUv(installation);
  if (uv !== undefined) {
    try {
      await installByUv(uv, installation);
      return;
    } catch (error) {
      if (installation.signal.aborted || !(error instanceof ArmPyError)) throw error;
      installation.report(`trying pip, because ${error.message.split("\n").slice(0, 4).join(" | ")}`);
    }
  }
  await installByPip(installation);
}

/** The uv of the cache, fetched by the interpreter's pip the first time; `undefined` where that fails or pip has settings that uv doesn't read. */
async function findUv(installation: PackageInstallation): Promise<string | undefined> {
  const { cacheDir, interpreter, signal } = installation;
  const dir = path.join(cacheDir, `uv-${UV_VERSION}-${interpreter.platformTag}`);
  const uv = path.join(dir, "bin", "uv");
  let hasOwnIndex = false;
  try {
    const pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input"];
    const onLine = (line: string): void => {
      if (/index-url|no-index/u.test(line)) hasOwnIndex = true;
    };
    await runTool({
      name: "pip config",
      file: interpreter.executable,
      args: [...pip, "config", "list"],
      signal,
      onLine,
    });
    if (hasOwnIndex) return undefined;
    if (existsSync(uv)) return uv;
    const staging = await mkdtemp(`${dir}.`);
    try {
      const wheel = ["--only-binary=:all:", "--no-deps", "--no-compile", "--target", staging, `uv==${UV_VERSION}`];
      await runTool({
        name: "pip install",
        file: interpreter.executable,
        args: [...pip, "install", ...wheel],
        signal,
      });
      // When another process was faster, its copy stays.
      await rename(staging, dir).catch(() => undefined);
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
    return existsSync(uv) ? uv : undefined;
  } catch (error) {
    if (signal.aborted || !(error instanceof ArmPyError)) throw error;
    return undefined;
  }
}

async function installByUv(uv: string, installation: PackageInstallation): Promise<void> {
  const { dir, python, interpreter, requirements, report, signal } = installation;
  await rm(dir, { recursive: true, force: true });
  const venv = ["-I", "-m", "venv", "--without-pip", dir];
  await runTool({ name: "python -m venv", file: interpreter.executable, args: venv, signal });
  const files = requirements.flatMap((file) => ["-r", file]);
  const install = ["pip", "install", "--no-config", "--python", python, "--no-deps", "--only-binary", ":all:"];
  await runTool({
    name: "uv pip install",
    file: uv,
    args: [...install, ...files],
    signal,
    onLine: (line) => {
      if (/^(?:Downloading|Installed|Prepared) /u.test(line.trim())) report(line.trim());
    },
  });
  await runTool({
    name: "uv pip check",
    file: uv,
    args: ["pip", "check", "--no-config", "--python", python],
    signal,
  });
}

async function installByPip(installation: PackageInstallation): Promise<void> {
  const { dir, python, interpreter, requirements, report, signal } = installation;
  await rm(dir, { recursive: true, force: true });
  await runTool({ name: "python -m venv", file: interpreter.executable, args: ["-I", "-m", "venv", dir], signal });
  const pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input"];
  const files = requirements.flatMap((file) => ["-r", file]);
  await runTool({
    name: "pip install",
    file: python,
    args: [...pip, "install", "--progress-bar", "off", "--only-binary=:all:", "--no-deps", ...files],
    signal,
    onLine: (line) => {
      const progress = /^(?:Collecting \S+|Installing collected packages|Successfully installed)/u.exec(line);
      if (progress !== null) {
        report(progress[0].replace("Collecting", "getting"));
      }
    },
  });
  await runTool({ name: "pip check", file: python, args: [...pip, "check"], signal });
}
