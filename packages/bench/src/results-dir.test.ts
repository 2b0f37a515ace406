import fs, {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import path from "node:path";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { ResultsDir } from "./results-dir.ts";

let workDir: string;

beforeEach(() => {
  workDir = tempFolder("results");
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

it("takes another name for earlier results where the first is taken, be it while they are moved", () => {
  const first = ResultsDir.open(workDir).results;
  first.writeText("first", "env.txt");
  const time = new Date("2026-01-02T03:04:05.678Z");
  utimesSync(first.dir, time, time);
  const name = `${first.dir}-2026-01-02T03-04-05-678Z`;
  // A link to nothing is there, and is no folder to move to.
  symlinkSync(path.join(workDir, "gone"), name);
  const rename = renameSync;
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  vi.spyOn(fs, "renameSync").mockImplementationOnce((from, to) => {
    mkdirSync(to);
    writeFileSync(path.join(to as string, "of-another"), "kept");
    rename(from, to);
  });
  syncBuiltinESMExports();
  const { movedTo } = ResultsDir.open(workDir);
  expect(movedTo).toBe(`${name}-3`);
  expect(readFileSync(path.join(`${name}-3`, "env.txt"), "utf8")).toBe("first");
  expect(readFileSync(path.join(`${name}-2`, "of-another"), "utf8")).toBe("kept");
  expect(fs.readlinkSync(name)).toBe(path.join(workDir, "gone"));
});

it("makes folders of results where there is only a link to nothing, which is moved aside", () => {
  symlinkSync(path.join(workDir, "gone"), path.join(workDir, "results"));
  const { results, movedTo } = ResultsDir.open(workDir);
  expect(fs.readlinkSync(movedTo as string)).toBe(path.join(workDir, "gone"));
  expect(existsSync(results.writeText("x", "a.txt"))).toBe(true);
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
