import { readFile, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../test/tiny-spec.ts";
import { layoutSafetensors } from "./safetensors-header.ts";
import { readSafetensorsHeader, readTensors } from "./safetensors-reader.ts";

/** A file with `a` [2, 3] = 1 … 6 at 4096 and `b` [2] = 7, 8 at 8192. */
async function writeExample(): Promise<string> {
  const layout = layoutSafetensors(
    [
      { name: "a", shape: [2, 3] },
      { name: "b", shape: [2] },
    ],
    4096,
  );
  const bytes = new Uint8Array(layout.fileBytes);
  bytes.set(layout.header);
  new Float32Array(bytes.buffer, 4096, 6).set([1, 2, 3, 4, 5, 6]);
  new Float32Array(bytes.buffer, 8192, 2).set([7, 8]);
  const file = path.join(await temporaryDirectory(), "example.safetensors");
  await writeFile(file, bytes);
  return file;
}

test("all tensors are read, padding left out", async () => {
  const tensors = await readTensors(await writeExample());
  expect([...tensors]).toEqual([
    ["a", { dtype: "F32", shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) }],
    ["b", { dtype: "F32", shape: [2], data: Float32Array.of(7, 8) }],
  ]);
});

test("only the named tensors are read", async () => {
  const file = await writeExample();
  expect([...(await readTensors(file, ["b"])).keys()]).toEqual(["b"]);
  expect((await readTensors(file, [])).size).toBe(0);
});

test("the header says where the tensors are", async () => {
  const header = await readSafetensorsHeader(await writeExample());
  expect(header.tensors.map(({ name, offset }) => [name, offset])).toEqual([
    ["a", 4096],
    ["b", 8192],
  ]);
  expect(header.fileBytes).toBe(8200);
});

test("a missing tensor and one of another type are named, with the file", async () => {
  const file = await writeExample();
  await expect(readTensors(file, ["c"])).rejects.toMatchObject({
    code: "invalid_safetensors",
    message: `${file}: no tensor "c"`,
  });
  const bytes = await readFile(file);
  await writeFile(file, Buffer.from(bytes.toString("latin1").replace('"dtype":"F32"', '"dtype":"I32"'), "latin1"));
  await expect(readTensors(file)).rejects.toMatchObject({
    code: "invalid_safetensors",
    message: `${file}: tensor "a" is I32, expected F32`,
  });
});

test("a file cut anywhere is refused, and its path named", async () => {
  const file = await writeExample();
  for (const bytes of [8199, 4096, 4095, 9, 8, 7, 0]) {
    await truncate(file, bytes);
    await expect(readTensors(file)).rejects.toMatchObject({
      code: "invalid_safetensors",
      message: expect.stringContaining(`${file}: `) as string,
    });
  }
});

test("a file that is not there is Node's own error", async () => {
  await expect(readTensors(path.join(await temporaryDirectory(), "none"))).rejects.toMatchObject({ code: "ENOENT" });
});
