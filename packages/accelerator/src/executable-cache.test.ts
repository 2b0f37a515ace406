import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ExecutableCache } from "./executable-cache.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "executable-cache-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("makes its folder, for its owner alone, with those above it, and keeps what is written", () => {
  const dir = path.join(folder, "dlrm", "pjrt");
  const cache = new ExecutableCache(dir);
  cache.write("a", Uint8Array.of(1, 2, 3));
  cache.write("b", Uint8Array.of(4));
  expect(readdirSync(dir).sort()).toEqual(["a.pjrt", "b.pjrt"]);
  expect([...(cache.read("a") ?? [])]).toEqual([1, 2, 3]);
  if (process.platform !== "win32") expect(statSync(dir).mode & 0o777).toBe(0o700);
});

// Node's own recursive mkdir never returns there.
test.skipIf(!existsSync("/proc/self"))("keeps nothing under a folder that takes none (needs /proc)", () => {
  const cache = new ExecutableCache("/proc/dlrm/pjrt");
  cache.write("a", Uint8Array.of(1));
  expect(cache.read("a")).toBeUndefined();
});
