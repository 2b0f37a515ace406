import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { pythonCandidates, searchPython } from "./python-interpreter.ts";

const dir = mkdtempSync(path.join(tmpdir(), "dlrm-interpreters-"));
afterAll(() => {
  rmSync(dir, { recursive: true, force: true });
});

const GOOD = {
  implementation: "CPython",
  version: "3.12.1",
  info: [3, 12],
  executable: "/opt/python/bin/python3.12",
  platformTag: "linux-x86_64",
  venv: true,
  gil: true,
};

let count = 0;
function fakePython(script: string): string {
  count += 1;
  const file = path.join(dir, `python-${count}`);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}

function answering(answer: unknown): string {
  return fakePython(`cat <<'END'\n${typeof answer === "string" ? answer : JSON.stringify(answer)}\nEND`);
}

test("the first candidate that fits is taken", () => {
  const search = searchPython([
    path.join(dir, "none"),
    answering({ ...GOOD, version: "3.10.2", info: [3, 10] }),
    answering(GOOD),
  ]);
  expect(search).toStrictEqual({
    found: true,
    interpreter: { executable: "/opt/python/bin/python3.12", version: "3.12.1", platformTag: "linux-x86_64" },
  });
});

test.each([
  [{ ...GOOD, version: "3.10.2", info: [3, 10] }, "is Python 3.10.2"],
  [{ ...GOOD, version: "2.7.18", info: [2, 7] }, "is Python 2.7.18"],
  [{ ...GOOD, version: "4.0.0", info: [4, 0] }, "is Python 4.0.0"],
  [{ ...GOOD, implementation: "PyPy" }, "is PyPy 3.12.1"],
  [{ ...GOOD, gil: false }, "is a free-threaded build of Python 3.12.1"],
  [
    { ...GOOD, venv: false },
    "Python 3.12.1 without venv or ensurepip (on Debian and Ubuntu: apt install python3-venv)",
  ],
  ["hello", 'not a Python (answered "hello\\n")'],
])("a candidate that answers %j is refused: %s", (answer, reason) => {
  const candidate = answering(answer);
  expect(searchPython([candidate])).toStrictEqual({
    found: false,
    missing: `CPython >= 3.11 with venv (tried ${candidate}: ${reason})`,
  });
});

test("a candidate that is not there or does not run is said so", () => {
  const absent = path.join(dir, "absent");
  const broken = fakePython("echo 'no such version' >&2; exit 127");
  expect(searchPython([absent, broken])).toStrictEqual({
    found: false,
    missing: `CPython >= 3.11 with venv (tried ${absent}: not found; ${broken}: does not run (exit code 127: no such version))`,
  });
});

test("DLRM_BASE_PYTHON is tried alone", () => {
  expect(pythonCandidates({ DLRM_BASE_PYTHON: "/x/python" })).toStrictEqual(["/x/python"]);
  expect(pythonCandidates({ DLRM_BASE_PYTHON: "" })[0]).toBe("python3");
  expect(pythonCandidates({})).toContain("python3.11");
});
