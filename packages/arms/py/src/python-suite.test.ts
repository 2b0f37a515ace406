import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pythonSourceDir } from "./python-environment.ts";

/** One line of the file that python/tests/conftest.py writes. */
interface Report {
  readonly id: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly text: string;
}

const SUITE_TIMEOUT_MS = 600_000;
const python = process.env["DLRM_PYTHON"];

function pytest(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): { readonly code: number | null; readonly output: string } {
  const run = spawnSync(python ?? "", ["-m", "pytest", "-q", ...args], {
    cwd: pythonSourceDir,
    encoding: "utf8",
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", ...env },
    maxBuffer: 64 * 1024 * 1024,
  });
  return { code: run.status, output: `${run.stdout}${run.stderr}${run.error?.message ?? ""}` };
}

describe.skipIf(!python)("the Python server's own tests (skipped when no Python >= 3.11 is found)", () => {
  const collected = python === undefined ? { code: 0, output: "" } : pytest(["--collect-only"]);
  const ids = collected.output.split("\n").filter((line) => line.includes("::"));
  const reports = new Map<string, Report>();
  const dir = mkdtempSync(path.join(tmpdir(), "dlrm-py-"));
  let run = { code: null as number | null, output: "" };

  beforeAll(() => {
    const file = path.join(dir, "report.jsonl");
    run = pytest([], { DLRM_PYTEST_REPORT: file });
    for (const line of readFileSync(file, "utf8").trim().split("\n")) {
      const report = JSON.parse(line) as Report;
      // A test that failed and could then not be torn down stays failed.
      if (reports.get(report.id)?.outcome !== "failed") {
        reports.set(report.id, report);
      }
    }
  }, SUITE_TIMEOUT_MS);

  afterAll(() => {
    rmSync(dir, { recursive: true, force: true });
  });

  test("are found, and end without an error of pytest itself", () => {
    expect(collected).toMatchObject({ code: 0 });
    expect(ids.length).toBeGreaterThan(100);
    expect(run).toMatchObject({ code: 0 });
  });

  test.each(ids)("%s", (id) => {
    expect(reports.get(id)).toStrictEqual({ id, outcome: "passed", text: "" });
  });
});
