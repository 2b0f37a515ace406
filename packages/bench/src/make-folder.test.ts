import { existsSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { makeFolder } from "./make-folder.ts";

it("makes a folder with its parents, and leaves alone what is there", () => {
  const folder = tempFolder("folder");
  const deep = path.join(folder, "a", "b");
  makeFolder(deep);
  const file = path.join(deep, "file");
  writeFileSync(file, "");
  makeFolder(deep);
  expect(statSync(file).size).toBe(0);
  expect(() => makeFolder(file)).toThrow(/^EEXIST/);
  expect(() => makeFolder(path.join(file, "c"))).toThrow(/^ENOTDIR/);
});

// Node's own recursive mkdir never returns there.
it.skipIf(!existsSync("/proc/self"))("fails under a folder that takes none (needs /proc)", () => {
  expect(() => makeFolder("/proc/dlrm/a/b")).toThrow(/^(ENOENT|EACCES|EPERM)/);
});
