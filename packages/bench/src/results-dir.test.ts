import fs, { existsSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { ResultsDir } from "./results-dir.ts";

let workDir: string;

beforeEach(() => {
  workDir = mkdtempSync(path.join(tmpdir(), "bench-results-"));
});

it("writes files in folders, whole", () => {
  const { results, movedTo } = ResultsDir.open(workDir);
  expect(movedTo).toBeUndefined();
  const file = results.writeJson({ a: 1 }, "engine", "point.json");
  expect(file).toBe(path.join(workDir, "results", "engine", "point.json"));
  expect(readFileSync(file, "utf8")).toBe('{\n  "a": 1\n}\n');
  expect(readdirSync(path.dirname(file))).toEqual(["point.json"]);
});

it("has a file on the disk before it gets its name, so that a power cut leaves no empty one", () => {
  const { results } = ResultsDir.open(workDir);
  const flush = vi.spyOn(fs, "fsyncSync");
  const rename = vi.spyOn(fs, "renameSync");
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  syncBuiltinESMExports();
  results.writeText("x", "run.json");
  expect(flush).toHaveBeenCalledTimes(1);
  expect(rename).toHaveBeenCalledTimes(1);
  expect(flush).toHaveBeenCalledBefore(rename);
});

it("moves earlier results aside, and keeps all of them", () => {
  ResultsDir.open(workDir).results.writeText("first", "env.txt");
  const { movedTo } = ResultsDir.open(workDir);
  expect(readFileSync(path.join(movedTo as string, "env.txt"), "utf8")).toBe("first");
  ResultsDir.open(workDir);
  ResultsDir.open(workDir);
  expect(readdirSync(workDir)).toHaveLength(4);
  expect(readdirSync(path.join(workDir, "results"))).toEqual([]);
});

it("names the file that cannot be written", () => {
  const { results } = ResultsDir.open(workDir);
  writeFileSync(path.join(workDir, "results", "engine"), "a file");
  expect(() => results.writeText("x", "engine", "a.json")).toThrow(
    expect.objectContaining({ code: "results_failed", message: expect.stringContaining("results/engine/a.json: ") }),
  );
});

it.skipIf(!existsSync("/dev/full"))(
  "says what to do when the disk is full (needs /dev/full), and leaves no half file",
  () => {
    const { results } = ResultsDir.open(workDir);
    results.writeText("before", "a.json");
    // Whatever is written to it meets a full disk.
    symlinkSync("/dev/full", path.join(results.dir, "a.json.partial"));
    expect(() => results.writeText("after", "a.json")).toThrow(
      `cannot write ${path.join(results.dir, "a.json")}: ENOSPC: no space left on device, write (the disk is full)\n` +
        `What was measured before is in ${results.dir}; once that is put right, the same command with --resume goes on.`,
    );
    expect(readdirSync(results.dir)).toEqual(["a.json"]);
    expect(readFileSync(path.join(results.dir, "a.json"), "utf8")).toBe("before");
  },
);
