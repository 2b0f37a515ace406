import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ensurePythonEnvironment, pythonEnvironment } from "./python-environment.ts";
import type { PythonInterpreter } from "./python-interpreter.ts";

/*
 * A stand-in for Python: `-m venv DIR` copies it to DIR/bin/python, `-m pip install` and `pip check` do what the files
 * `install` and `check` beside it say; `uv` says how uv is got (by default it can't be), `config` what pip's settings are. Every call is noted in `calls`.
 */
const SCRIPT = `#!/bin/sh
echo "$*" >> "$FAKE/calls"
case "$*" in
  *" config list"*) . "$FAKE/config" ;;
  *" uv=="*) . "$FAKE/uv" ;;
  *"-m venv "*) for dir; do :; done; mkdir -p "$dir/bin"; cp "$0" "$dir/bin/python" ;;
  *" install "*) . "$FAKE/install" ;;
  *" check"*) . "$FAKE/check" ;;
esac
`;

/** pip's settings, the attempt to get uv, the environment, the packages, the check. */
const PIP_CALLS = 5;
/** Gets a uv that notes its calls with a name before them, and does as `install` and `check` say. */
const GET_UV = `for uv; do [ "$last" = --target ] && target=$uv; last=$uv; done
mkdir -p "$target/bin"; sed 's/echo "/echo "uv /' "$0" > "$target/bin/uv"; chmod +x "$target/bin/uv"
`;

let dir = "";
let interpreter: PythonInterpreter = { executable: "", version: "3.12.1", platformTag: "linux-x86_64" };

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "dlrm-environment-"));
  const executable = path.join(dir, "python");
  writeFileSync(executable, SCRIPT);
  chmodSync(executable, 0o755);
  writeFileSync(path.join(dir, "install"), "echo 'Collecting numpy==1 (from -r x)'; echo noise\n");
  writeFileSync(path.join(dir, "check"), "");
  writeFileSync(path.join(dir, "config"), "");
  writeFileSync(path.join(dir, "uv"), "exit 1\n");
  writeFileSync(path.join(dir, "requirements.txt"), "numpy==1\n");
  writeFileSync(path.join(dir, "requirements-test.txt"), "pytest==1\n");
  interpreter = { ...interpreter, executable };
  process.env["FAKE"] = dir;
});

afterEach(() => {
  delete process.env["FAKE"];
  rmSync(dir, { recursive: true, force: true });
});

function options(extras: readonly "test"[] = []): {
  cacheDir: string;
  requirementsDir: string;
  interpreter: PythonInterpreter;
  extras: readonly "test"[];
} {
  return { cacheDir: path.join(dir, "cache"), requirementsDir: dir, interpreter, extras };
}

function calls(): number {
  return readFileSync(path.join(dir, "calls"), "utf8").trim().split("\n").length;
}

test("an environment is made once, with progress, and then found", async () => {
  const lines: string[] = [];
  const made = await ensurePythonEnvironment({ ...options(), report: (line) => lines.push(line) });
  expect(made).toStrictEqual(pythonEnvironment(options()));
  expect(made.python).toBe(path.join(made.dir, "bin/python"));
  expect(lines).toStrictEqual([
    `making a virtual environment of Python 3.12.1 in ${made.dir}`,
    "getting numpy==1",
    "Python 3.12.1 is ready",
  ]);
  expect(calls()).toBe(PIP_CALLS);
  expect(await ensurePythonEnvironment({ ...options(), report: (line) => lines.push(line) })).toStrictEqual(made);
  expect(calls()).toBe(PIP_CALLS);
  expect(readdirSync(path.join(dir, "cache"))).toStrictEqual([path.basename(made.dir)]);
});

test("other requirements, extras, versions and interpreters are other environments", () => {
  const dirs = new Set<string>();
  dirs.add(pythonEnvironment(options()).dir);
  dirs.add(pythonEnvironment(options(["test"])).dir);
  dirs.add(pythonEnvironment({ ...options(), interpreter: { ...interpreter, version: "3.12.2" } }).dir);
  dirs.add(pythonEnvironment({ ...options(), interpreter: { ...interpreter, platformTag: "linux-aarch64" } }).dir);
  dirs.add(pythonEnvironment({ ...options(), interpreter: { ...interpreter, executable: "/x" } }).dir);
  writeFileSync(path.join(dir, "requirements.txt"), "numpy==2\n");
  dirs.add(pythonEnvironment(options()).dir);
  expect(dirs.size).toBe(6);
  expect(pythonEnvironment(options(["test", "test"])).dir).toBe(pythonEnvironment(options(["test"])).dir);
});

test("what an interrupted installation left is made anew", async () => {
  const { dir: environment } = pythonEnvironment(options());
  mkdirSync(path.join(environment, "lib"), { recursive: true });
  writeFileSync(path.join(environment, "lib/half"), "");
  await ensurePythonEnvironment(options());
  expect(existsSync(path.join(environment, "lib/half"))).toBe(false);
  expect(existsSync(path.join(environment, "bin/python"))).toBe(true);
});

test.each(["install", "check"])(
  "a failure of pip %s is shown with its last lines, and tried again the next time",
  async (step) => {
    writeFileSync(path.join(dir, step), "echo one; echo 'no matching distribution' >&2; exit 3\n");
    await expect(ensurePythonEnvironment(options())).rejects.toMatchObject({
      code: "install_failed",
      message: expect.stringMatching(
        new RegExp(`^pip ${step} failed \\(exit code 3\\): .*(\n.*)*no matching distribution`, "u"),
      ) as string,
    });
    writeFileSync(path.join(dir, step), "");
    await ensurePythonEnvironment(options());
  },
);

test("an abort stops the installation and is said", async () => {
  const controller = new AbortController();
  writeFileSync(path.join(dir, "install"), "echo 'Collecting numpy==1'; exec sleep 600\n");
  const report = (line: string): void => {
    if (line.startsWith("getting")) {
      controller.abort();
    }
  };
  await expect(ensurePythonEnvironment({ ...options(), report, signal: controller.signal })).rejects.toMatchObject({
    code: "aborted",
  });
  expect(readdirSync(path.join(dir, "cache")).filter((name) => name.endsWith(".lock"))).toStrictEqual([]);
});

test("of two that ask at once, one installs", async () => {
  const [one, two] = await Promise.all([ensurePythonEnvironment(options()), ensurePythonEnvironment(options())]);
  expect(one).toStrictEqual(two);
  expect(calls()).toBe(PIP_CALLS);
});

test("the lock of a process that was killed is taken over", async () => {
  const lock = `${pythonEnvironment(options()).dir}.lock`;
  mkdirSync(path.dirname(lock), { recursive: true });
  writeFileSync(lock, "gone");
  const past = new Date(Date.now() - 60_000);
  utimesSync(lock, past, past);
  await ensurePythonEnvironment(options());
  expect(calls()).toBe(PIP_CALLS);
});

// Node's own recursive mkdir never returns there.
test.skipIf(!existsSync("/proc/self"))(
  "a cache under a directory that takes none is an error (needs /proc)",
  async () => {
    const there = { ...options(), cacheDir: "/proc/dlrm/a/b" };
    await expect(ensurePythonEnvironment(there)).rejects.toThrow(/^(ENOENT|EACCES|EPERM)/u);
  },
);

test("with uv, which is got once, pip installs nothing else", async () => {
  writeFileSync(path.join(dir, "uv"), GET_UV);
  writeFileSync(path.join(dir, "install"), "echo 'Downloading jaxlib (80.0MiB)' >&2; echo ' + numpy==1'\n");
  const lines: string[] = [];
  const { python, dir: environment } = await ensurePythonEnvironment({
    ...options(),
    report: (line) => lines.push(line),
  });
  expect(lines.slice(1)).toStrictEqual(["Downloading jaxlib (80.0MiB)", "Python 3.12.1 is ready"]);
  const noted = (): string[] => readFileSync(path.join(dir, "calls"), "utf8").trim().split("\n");
  const requirements = path.join(dir, "requirements.txt");
  expect(noted().slice(2)).toStrictEqual([
    `-I -m venv --without-pip ${environment}`,
    `uv pip install --no-config --python ${python} --no-deps --only-binary :all: -r ${requirements}`,
    `uv pip check --no-config --python ${python}`,
  ]);
  await ensurePythonEnvironment(options(["test"]));
  expect(noted().filter((call) => call.includes("uv=="))).toHaveLength(1);
  expect(readdirSync(path.join(dir, "cache"))).toHaveLength(3);
});

test("where uv fails, pip installs, and why is said", async () => {
  writeFileSync(path.join(dir, "uv"), GET_UV);
  writeFileSync(path.join(dir, "install"), "case $0 in */uv) echo 'no route'; exit 2;; esac\n");
  const lines: string[] = [];
  await ensurePythonEnvironment({ ...options(), report: (line) => lines.push(line) });
  expect(lines[1]).toMatch(/^trying pip, because uv pip install failed \(exit code 2\): .* \| no route$/u);
  expect(lines[2]).toBe("Python 3.12.1 is ready");
});

test("settings of pip that uv does not read are kept: pip installs", async () => {
  writeFileSync(path.join(dir, "uv"), GET_UV);
  writeFileSync(path.join(dir, "config"), "echo \"global.index-url='https://mirror.invalid/simple'\"\n");
  await ensurePythonEnvironment(options());
  expect(calls()).toBe(PIP_CALLS - 1);
});
