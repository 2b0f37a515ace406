import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { SharedMemoryWatch } from "./shared-memory.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "bench-shm-"));
});

afterEach(() => rmSync(folder, { recursive: true }));

it("removes what came since, by the names that arms use, and nothing else", () => {
  writeFileSync(path.join(folder, "dlrm-before"), "");
  const watch = new SharedMemoryWatch(folder);
  for (const name of ["dlrm-ring-1", "psm_abc", "sem.other"]) writeFileSync(path.join(folder, name), "");
  expect(watch.removeLeft().sort()).toEqual([path.join(folder, "dlrm-ring-1"), path.join(folder, "psm_abc")]);
  expect(readdirSync(folder).sort()).toEqual(["dlrm-before", "sem.other"]);
  expect(watch.removeLeft()).toEqual([]);
});

it.skipIf(!existsSync("/proc/self/fd"))("leaves what a process still has open (needs /proc)", () => {
  const watch = new SharedMemoryWatch(folder);
  const file = path.join(folder, "dlrm-ring");
  const fd = openSync(file, "w");
  expect(watch.removeLeft()).toEqual([]);
  closeSync(fd);
  expect(watch.removeLeft()).toEqual([file]);
});

it.skipIf(process.getuid === undefined)("leaves the files of other users (needs user ids)", () => {
  const watch = new SharedMemoryWatch(folder, (process.getuid?.() ?? 0) + 1);
  writeFileSync(path.join(folder, "psm_abc"), "");
  expect(watch.removeLeft()).toEqual([]);
  expect(readdirSync(folder)).toEqual(["psm_abc"]);
});

it("does not fail for what cannot be removed, and removes the rest", () => {
  const watch = new SharedMemoryWatch(folder);
  mkdirSync(path.join(folder, "dlrm-folder"));
  writeFileSync(path.join(folder, "psm_abc"), "");
  expect(watch.removeLeft()).toEqual([path.join(folder, "psm_abc")]);
  expect(readdirSync(folder)).toEqual(["dlrm-folder"]);
});

it("finds nothing where there is no such folder", () => {
  expect(new SharedMemoryWatch(path.join(folder, "none")).removeLeft()).toEqual([]);
});
