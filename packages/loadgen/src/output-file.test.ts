import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkOutputFile, writeOutputFile } from "./output-file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "output-file-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a file that can be written is as it was after the check, or as missing", () => {
  const [old, fresh] = [path.join(folder, "old.json"), path.join(folder, "fresh.json")];
  writeFileSync(old, "before");
  checkOutputFile(old);
  checkOutputFile(fresh);
  expect([readFileSync(old, "utf8"), existsSync(fresh)]).toEqual(["before", false]);
  expect(writeOutputFile(old, "after")).toBe(true);
  expect(readFileSync(old, "utf8")).toBe("after");
});

test.each([
  ["in a folder that is not there", "missing/out.json", "ENOENT"],
  ["that is a folder", ".", "EISDIR"],
])("a file %s is refused", (_, name, code) => {
  const file = path.join(folder, name);
  expect(() => checkOutputFile(file)).toThrow(
    expect.objectContaining({
      code: "invalid_options",
      message: expect.stringContaining(`cannot write ${file} (--output): ${code}`) as string,
    }),
  );
});
