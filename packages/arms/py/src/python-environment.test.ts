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
 * `install` and `check` beside it say. Every call is noted in `calls`.
 */
const SCRIPT = `#!/bin/sh
echo "$*" >> "$FAKE/calls"
case "$*" in
  *"-m venv "*) for dir; do :; done; mkdir -p "$dir/bin"; cp "$0" "$dir/bin/python" ;;
  *" install "*) . "$FAKE/install" ;;
  *" check"*) . "$FAKE/check" ;;
esac
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
  expect(calls()).toBe(3);
  expect(await ensurePythonEnvironment({ ...options(), report: (line) => lines.push(line) })).toStrictEqual(made);
  expect(calls()).toBe(3);
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
  expect(calls()).toBe(3);
});

test("the lock of a process that was killed is taken over", async () => {
  const lock = `${pythonEnvironment(options()).dir}.lock`;
  mkdirSync(path.dirname(lock), { recursive: true });
  writeFileSync(lock, "gone");
  const past = new Date(Date.now() - 60_000);
  utimesSync(lock, past, past);
  await ensurePythonEnvironment(options());
  expect(calls()).toBe(3);
});
