import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { npyBytes } from "../test/tables.ts";

const run = promisify(execFile);
const index = new URL("./index.ts", import.meta.url).href;
const TABLE = "[[1, 2], [10, 20], [100, 200]]";
let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "embedding-readme-"));
});
afterAll(() => rm(dir, { recursive: true }));

/** Runs the README's first JavaScript block in `dir`, which holds `colours.npy`. */
async function runExample(): Promise<string> {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const code = /```js\n([^]*?)```/.exec(readme)?.[1] ?? "";
  expect(code.trim().split("\n").length).toBeLessThanOrEqual(15);
  await writeFile(join(dir, "example.mjs"), code.replace('"@dlrm/embedding"', JSON.stringify(index)));
  return (await run(process.execPath, [...process.execArgv, "example.mjs"], { cwd: dir })).stdout;
}

test("the README's example runs", async () => {
  const data = new Uint8Array(Float32Array.of(1, 2, 10, 20, 100, 200).buffer);
  const dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
  await writeFile(join(dir, "colours.npy"), npyBytes(dict, data));
  expect(await runExample()).toMatch(/Float32Array\(4\) \[ 11, 22, 200, 400 \]/);
});

const python = process.env["DLRM_PYTHON"];
test.skipIf(python === undefined)(
  "the README's example runs with a table that NumPy saved (needs DLRM_PYTHON)",
  async () => {
    const save = `import numpy; numpy.save("colours.npy", numpy.array(${TABLE}, numpy.float32))`;
    await run(python ?? "", ["-c", save], { cwd: dir });
    expect(await runExample()).toMatch(/Float32Array\(4\) \[ 11, 22, 200, 400 \]/);
  },
);
