import { mkdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { readBundle } from "./bundle.ts";
import { exportBundle } from "./export-bundle.ts";

test("a bundle that was exported reads back, with absolute paths", async () => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, seed: 9, dir, version: "2026-11", buckets: [1, 4] });
  expect(await readBundle(path.relative(process.cwd(), dir))).toEqual({
    dir,
    name: "tiny",
    version: "2026-11",
    seed: 9,
    spec: TINY_SPEC,
    buckets: [1, 4],
    paths: {
      tables: path.join(dir, "tables.safetensors"),
      dense: path.join(dir, "dense.safetensors"),
      onnx: path.join(dir, "dense.onnx"),
      stableHlo: path.join(dir, "dense.stablehlo.mlir"),
    },
  });
});

test("a directory without model.json, and none at all, are no bundles", async () => {
  const dir = await temporaryDirectory();
  for (const target of [dir, path.join(dir, "none")]) {
    await expect(readBundle(target)).rejects.toMatchObject({
      code: "invalid_bundle",
      message: expect.stringMatching(`^${target} is not a bundle: model.json cannot be read \\(.*ENOENT`) as string,
    });
  }
});

test("a malformed model.json is named, with the directory", async () => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  const file = path.join(dir, "model.json");
  await writeFile(file, (await readFile(file, "utf8")).replace('"formatVersion": 1', '"formatVersion": 3'));
  await expect(readBundle(dir)).rejects.toMatchObject({
    code: "invalid_bundle",
    message: `${dir}: model.json is not valid:\n- formatVersion: expected 1, got 3`,
  });
});

test("a size that somebody has changed in model.json is not held against the file alone", async () => {
  const dir = await temporaryDirectory();
  const { paths } = await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  const { length } = await readFile(paths.tables);
  const manifest = path.join(dir, "model.json");
  await writeFile(manifest, (await readFile(manifest, "utf8")).replace(`${length}`, `${length + 1}`));
  await expect(readBundle(dir)).rejects.toMatchObject({
    code: "invalid_bundle",
    message:
      `${dir}: model.json: its text does not have the SHA-256 that "digest" says; ` +
      `tables.safetensors: expected ${length + 1} bytes, got ${length}`,
  });
});

test("every file that is missing or has another size is named", async () => {
  const dir = await temporaryDirectory();
  const { paths } = await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  const { length } = await readFile(paths.tables);
  await truncate(paths.tables, length - 1);
  await rm(paths.onnx);
  await rm(paths.dense);
  await mkdir(paths.dense);
  await expect(readBundle(dir)).rejects.toMatchObject({
    code: "invalid_bundle",
    message: expect.stringMatching(
      new RegExp(
        `^${dir}: tables.safetensors: expected ${length} bytes, got ${length - 1}; ` +
          "dense.safetensors: expected \\d+ bytes, there is no such file; " +
          "dense.onnx: expected \\d+ bytes, there is no such file$",
      ),
    ) as string,
  });
});
