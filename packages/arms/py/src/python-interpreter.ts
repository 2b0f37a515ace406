import { spawnSync } from "node:child_process";

/** A CPython that the arms can run on. */
export interface PythonInterpreter {
  /** Absolute path of the executable. */
  readonly executable: string;
  /** For instance `3.11.7`. */
  readonly version: string;
  /** The machine that its wheels must fit, for instance `linux-x86_64`. */
  readonly platformTag: string;
}

export type PythonSearch =
  | { readonly found: true; readonly interpreter: PythonInterpreter }
  | { readonly found: false; readonly missing: string };

/** The oldest minor version of Python 3 that the pinned packages support. */
export const OLDEST_PYTHON_MINOR = 11;

const PROBE = [
  "import sys, json, sysconfig, platform, importlib.util as u",
  "print(json.dumps({'implementation': platform.python_implementation(), 'version': platform.python_version(),",
  " 'info': list(sys.version_info[:2]), 'executable': sys.executable, 'platformTag': sysconfig.get_platform(),",
  " 'venv': u.find_spec('venv') is not None and u.find_spec('ensurepip') is not None,",
  " 'gil': getattr(sys, '_is_gil_enabled', lambda: True)()}))",
].join("\n");

interface Probe {
  readonly implementation: string;
  readonly version: string;
  readonly info: readonly [number, number];
  readonly executable: string;
  readonly platformTag: string;
  readonly venv: boolean;
  readonly gil: boolean;
}

/** The names that are tried, in order; `DLRM_BASE_PYTHON` names one to use instead. */
export function pythonCandidates(env: Readonly<Record<string, string | undefined>> = process.env): readonly string[] {
  const chosen = env["DLRM_BASE_PYTHON"];
  return chosen === undefined || chosen === ""
    ? ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"]
    : [chosen];
}

/**
 * Looks for CPython ≥ 3.11 with `venv` and `ensurepip` among `candidates`, the first that fits.
 * When none does, `missing` says what each candidate lacks.
 */
export function searchPython(candidates: readonly string[]): PythonSearch {
  const reasons: string[] = [];
  for (const candidate of candidates) {
    const probed = probePython(candidate);
    if (typeof probed !== "string") {
      return { found: true, interpreter: probed };
    }
    reasons.push(`${candidate}: ${probed}`);
  }
  return { found: false, missing: `CPython >= 3.${OLDEST_PYTHON_MINOR} with venv (tried ${reasons.join("; ")})` };
}

let remembered: { readonly key: string; readonly search: PythonSearch } | undefined;

/** {@link searchPython} among {@link pythonCandidates}, remembered for as long as PATH and the choice stay the same. */
export function findPython(): PythonSearch {
  const candidates = pythonCandidates();
  const key = JSON.stringify([candidates, process.env["PATH"]]);
  if (remembered?.key !== key) {
    remembered = { key, search: searchPython(candidates) };
  }
  return remembered.search;
}

/** The interpreter, or what keeps it from being used. */
function probePython(file: string): PythonInterpreter | string {
  // -I: what PYTHONPATH and the user's own site-packages bring must not decide.
  const run = spawnSync(file, ["-I", "-c", PROBE], { encoding: "utf8", timeout: 30_000 });
  if (run.error !== undefined) {
    return (run.error as NodeJS.ErrnoException).code === "ENOENT" ? "not found" : run.error.message;
  }
  if (run.status !== 0) {
    const lastLine = run.stderr.trim().split("\n").at(-1) ?? "";
    return `does not run (exit code ${run.status ?? run.signal}${lastLine === "" ? "" : `: ${lastLine}`})`;
  }
  let probe: Probe;
  try {
    probe = JSON.parse(run.stdout) as Probe;
  } catch {
    return `not a Python (answered ${JSON.stringify(run.stdout.slice(0, 80))})`;
  }
  const [major, minor] = probe.info;
  if (probe.implementation !== "CPython") {
    return `is ${probe.implementation} ${probe.version}`;
  }
  if (major !== 3 || minor < OLDEST_PYTHON_MINOR) {
    return `is Python ${probe.version}`;
  }
  if (!probe.gil) {
    return `is a free-threaded build of Python ${probe.version}`;
  }
  if (!probe.venv) {
    return `Python ${probe.version} without venv or ensurepip (on Debian and Ubuntu: apt install python3-venv)`;
  }
  return { executable: probe.executable, version: probe.version, platformTag: probe.platformTag };
}
