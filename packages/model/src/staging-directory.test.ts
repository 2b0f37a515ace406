import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../test/tiny-spec.ts";
import { fillDirectory } from "./staging-directory.ts";

const writeOne = (dir: string): Promise<void> => writeFile(path.join(dir, "file"), "content");

test("the target appears with what was written, and nothing else beside it", async () => {
  const parent = await temporaryDirectory();
  const target = path.join(parent, "a", "b");
  const result = await fillDirectory(target, async (dir) => {
    await writeOne(dir);
    expect(path.dirname(dir)).toBe(path.dirname(target));
    expect(await readdir(path.join(parent, "a"))).toEqual([path.basename(dir)]);
    return 7;
  });
  expect(result).toBe(7);
  expect(await readdir(path.join(parent, "a"))).toEqual(["b"]);
  expect(await readFile(path.join(target, "file"), "utf8")).toBe("content");
});

test("after a failure there is nothing", async () => {
  const parent = await temporaryDirectory();
  const failure = new Error("disk on fire");
  const filling = fillDirectory(path.join(parent, "b"), async (dir) => {
    await writeOne(dir);
    throw failure;
  });
  await expect(filling).rejects.toBe(failure);
  expect(await readdir(parent)).toEqual([]);
});

test("an empty directory is replaced", async () => {
  const parent = await temporaryDirectory();
  await mkdir(path.join(parent, "b"));
  await fillDirectory(path.join(parent, "b"), writeOne);
  expect(await readdir(path.join(parent, "b"))).toEqual(["file"]);
});

test("a directory with content, and a file, are refused before anything is written", async () => {
  const parent = await temporaryDirectory();
  await writeFile(path.join(parent, "file"), "mine");
  for (const target of [parent, path.join(parent, "file")]) {
    const filling = fillDirectory(target, () => Promise.reject(new Error("was called")));
    await expect(filling).rejects.toMatchObject({
      code: "bundle_exists",
      message: `${target} exists already and is left as it is`,
    });
  }
  expect(await readFile(path.join(parent, "file"), "utf8")).toBe("mine");
});

test("who comes second to the same target loses, and leaves the first one's alone", async () => {
  const parent = await temporaryDirectory();
  const target = path.join(parent, "b");
  const second = fillDirectory(target, async () => {
    await fillDirectory(target, writeOne);
  });
  await expect(second).rejects.toMatchObject({ code: "bundle_exists" });
  expect(await readdir(parent)).toEqual(["b"]);
  expect(await readdir(target)).toEqual(["file"]);
});

test("leftovers of processes that are gone are deleted, those of running ones and of other targets are not", async () => {
  const parent = await temporaryDirectory();
  // Linux gives no process a number this high.
  const gone = `.b.partial-${hostname()}-4999999-0`;
  const running = `.b.partial-${hostname()}-${process.ppid}-0`;
  const others = [`.b.partial-otherhost-4999999-0`, `.c.partial-${hostname()}-4999999-0`, `.b.partial-${hostname()}-x`];
  for (const name of [gone, running, ...others]) await mkdir(path.join(parent, name));
  await fillDirectory(path.join(parent, "b"), writeOne);
  expect((await readdir(parent)).sort()).toEqual([...others, running, "b"].sort());
});

// Node's own recursive mkdir never returns there.
test.skipIf(!existsSync("/proc/self"))(
  "a target under a directory that takes none is an error (needs /proc)",
  async () => {
    await expect(fillDirectory("/proc/dlrm/a/b", writeOne)).rejects.toThrow(/^(ENOENT|EACCES|EPERM)/);
  },
);
