import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ArmPyError } from "./arm-py-error.ts";
import { withInstallLock } from "./install-lock.ts";
import { makeDirectory } from "./make-directory.ts";
import { installPackages } from "./package-installer.ts";
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
  await makeDirectory(path.dirname(environment.dir));
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
  await installPackages({ dir, python, interpreter, requirements, cacheDir: path.dirname(dir), report, signal });
  const marker = path.join(dir, MARKER);
  await writeFile(
    `${marker}.new`,
    `${JSON.stringify({ version, requirements: requirements.map((f) => path.basename(f)) })}\n`,
  );
  await rename(`${marker}.new`, marker);
  report(`Python ${version} is ready`);
}
