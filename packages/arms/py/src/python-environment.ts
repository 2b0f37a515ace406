import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ArmPyError } from "./arm-py-error.ts";
import { withInstallLock } from "./install-lock.ts";
import { findPython, type PythonInterpreter } from "./python-interpreter.ts";

/** Packages beside those of `requirements.txt`: `requirements-<extra>.txt`. */
export type PythonExtra = "cuda" | "test" | "tpu";

export interface PythonEnvironment {
  /** Absolute path of the environment's interpreter. */
  readonly python: string;
  /** Absolute path of the virtual environment. */
  readonly dir: string;
  /** For instance `3.11.7`. */
  readonly version: string;
}

export interface EnsurePythonOptions {
  /** Directory that environments are kept in; created when missing. */
  readonly cacheDir: string;
  /** Default: none, only what serving needs. */
  readonly extras?: readonly PythonExtra[];
  /** One line of progress. Default: nobody is told. */
  readonly report?: (line: string) => void;
  /** Stops an installation; what it left half-made is made anew the next time. */
  readonly signal?: AbortSignal;
  /** Default: what `findPython` finds. */
  readonly interpreter?: PythonInterpreter;
  /** Directory of the requirements files. Default: those of this package. */
  readonly requirementsDir?: string;
}

/** Absolute path of the Python sources (`dlrm_py`), to be put in PYTHONPATH. */
export const pythonSourceDir: string = fileURLToPath(new URL("../python", import.meta.url));

/** Written last, so an environment without it was interrupted. */
const MARKER = "dlrm-complete.json";
const ERROR_LINES = 20;

/**
 * A virtual environment with the pinned packages; quick when it is there. Environments are told apart by a hash of the
 * requirements, the version of Python and the machine's kind, so an update of any makes a new one. Safe to call from
 * several processes at once: one installs, the others wait.
 *
 * @throws ArmPyError `python_missing`, `install_failed` or `aborted`
 */
export async function ensurePythonEnvironment(options: EnsurePythonOptions): Promise<PythonEnvironment> {
  const environment = pythonEnvironment(options);
  const report = options.report ?? (() => undefined);
  const signal = options.signal ?? new AbortController().signal;
  if (isComplete(environment.dir)) {
    return environment;
  }
  const interpreter = options.interpreter ?? requirePython();
  await mkdir(path.dirname(environment.dir), { recursive: true });
  try {
    return await withInstallLock(
      `${environment.dir}.lock`,
      { signal, onWait: () => report("another process is installing the Python packages: waiting for it") },
      async () => {
        if (!isComplete(environment.dir)) {
          await install(environment, interpreter, requirementsFiles(options), report, signal);
        }
        return environment;
      },
    );
  } catch (error) {
    if (signal.aborted) {
      throw new ArmPyError("aborted", "the installation of the Python packages was stopped", { cause: error });
    }
    throw error;
  }
}

/**
 * Where {@link ensurePythonEnvironment} with the same options keeps its environment, made or not.
 *
 * @throws ArmPyError `python_missing`
 */
export function pythonEnvironment(options: EnsurePythonOptions): PythonEnvironment {
  const interpreter = options.interpreter ?? requirePython();
  const hash = createHash("sha256").update(
    JSON.stringify([interpreter.version, interpreter.platformTag, interpreter.executable]),
  );
  for (const file of requirementsFiles(options)) {
    hash.update(readFileSync(file));
  }
  const dir = path.resolve(options.cacheDir, `python-${interpreter.version}-${hash.digest("hex").slice(0, 12)}`);
  const python = process.platform === "win32" ? path.join(dir, "Scripts/python.exe") : path.join(dir, "bin/python");
  return { dir, python, version: interpreter.version };
}

function requirePython(): PythonInterpreter {
  const search = findPython();
  if (!search.found) {
    throw new ArmPyError("python_missing", `no usable Python: need ${search.missing}`);
  }
  return search.interpreter;
}

function requirementsFiles(options: EnsurePythonOptions): readonly string[] {
  const dir = options.requirementsDir ?? pythonSourceDir;
  const extras = [...new Set(options.extras)].sort();
  return ["requirements.txt", ...extras.map((extra) => `requirements-${extra}.txt`)].map((name) =>
    path.join(dir, name),
  );
}

function isComplete(dir: string): boolean {
  return existsSync(path.join(dir, MARKER));
}

async function install(
  environment: PythonEnvironment,
  interpreter: PythonInterpreter,
  requirements: readonly string[],
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { dir, python, version } = environment;
  report(`making a virtual environment of Python ${version} in ${dir}`);
  // Built where it stays (virtual environments are not relocatable); the marker is what makes it whole at once.
  await rm(dir, { recursive: true, force: true });
  await runTool(interpreter.executable, ["-I", "-m", "venv", dir], "python -m venv", () => undefined, signal);
  const pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input"];
  const files = requirements.flatMap((file) => ["-r", file]);
  await runTool(
    python,
    // --no-deps: what is not pinned in the files is not installed, and `pip check` then says so.
    [...pip, "install", "--progress-bar", "off", "--only-binary=:all:", "--no-deps", ...files],
    "pip install",
    (line) => {
      const progress = /^(?:Collecting \S+|Installing collected packages|Successfully installed)/u.exec(line);
      if (progress !== null) {
        report(progress[0].replace("Collecting", "getting"));
      }
    },
    signal,
  );
  await runTool(python, [...pip, "check"], "pip check", () => undefined, signal);
  const marker = path.join(dir, MARKER);
  await writeFile(
    `${marker}.new`,
    `${JSON.stringify({ version, requirements: requirements.map((f) => path.basename(f)) })}\n`,
  );
  await rename(`${marker}.new`, marker);
  report(`Python ${version} is ready`);
}

/** Runs a command to its end, line by line; what it said last is part of the error. */
async function runTool(
  file: string,
  args: readonly string[],
  name: string,
  onLine: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { PYTHONHOME: _home, PYTHONPATH: _path, ...env } = process.env;
  const child = spawn(file, args, { env, signal, stdio: ["ignore", "pipe", "pipe"] });
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      lastLines.push(line);
      if (lastLines.length > ERROR_LINES) {
        lastLines.shift();
      }
      onLine(line);
    });
  }
  const outcome = await new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, killedBy) => resolve(code === 0 ? "" : `exit code ${code ?? killedBy}`));
  });
  signal.throwIfAborted();
  if (outcome !== "") {
    throw new ArmPyError(
      "install_failed",
      [`${name} failed (${outcome}): ${file} ${args.join(" ")}`, ...lastLines].join("\n"),
    );
  }
}
