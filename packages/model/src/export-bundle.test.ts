import { createHash } from "node:crypto";
import { open, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { exportBundle, type ExportProgress } from "./export-bundle.ts";
import { parseManifest } from "./manifest.ts";
import type { ModelError } from "./model-error.ts";
import type { ModelSpec } from "./model-spec.ts";
import { presetSpec } from "./presets.ts";
import { readSafetensorsHeader } from "./safetensors-reader.ts";
import { fillTableChunk, tableChunks } from "./table-chunks.ts";
import { verifyBundle } from "./verify-bundle.ts";

/** Large enough for the threads: 79 MB of tables in 20 chunks. */
const LARGE_SPEC: ModelSpec = {
  ...TINY_SPEC,
  name: "large",
  embeddingDim: 128,
  features: [
    { name: "first", vocabularySize: 1001, hotSize: 1, pooling: "sum" },
    { name: "second", vocabularySize: 150_001, hotSize: 3, pooling: "sum" },
    { name: "third", vocabularySize: 3001, hotSize: 1, pooling: "sum" },
  ],
  denseNetwork: { bottomMlp: [128], crossLayers: 0, crossProjection: 1, topMlp: [1] },
};

async function hashesOf(dir: string): Promise<Record<string, string>> {
  const { files } = parseManifest(await readFile(path.join(dir, "model.json"), "utf8"));
  return Object.fromEntries(Object.entries(files).map(([file, { sha256 }]) => [file, sha256]));
}

describe("bytes", () => {
  test("dcnv2-smoke of seed 1 is the same on every machine, always", async () => {
    const dir = await temporaryDirectory();
    await exportBundle({ spec: presetSpec("dcnv2-smoke"), dir });
    expect(await hashesOf(dir)).toEqual({
      "tables.safetensors": "cbf66b7030f4d7e4cb11fb831ea107eebc884816f53dfb5061d840ec1514a36b",
      "dense.safetensors": "6b5185ddfb66363f602519db14e0248ea6452346036776a1971b7c0c771cb335",
      "dense.onnx": "0031c19d70c0ded70a50557ecc21f1642d35ec6260c916d1ad53ddc1b290399e",
      "dense.stablehlo.mlir": "50789ae629e5f8aff22330acada8ba08a326b9f9730d853a36c18f51379bd911",
    });
  });

  test("tables made by several threads are those made row by row, each aligned to a page", async () => {
    const dir = await temporaryDirectory();
    const { paths } = await exportBundle({ spec: LARGE_SPEC, seed: 5, dir });
    const { tensors, dataOffset, fileBytes } = await readSafetensorsHeader(paths.tables);
    const bytes = await readFile(paths.tables);
    expect(tensors.map(({ name, shape, offset }) => [name, shape[0], offset % 4096])).toEqual([
      ["first", 1001, 0],
      ["second", 150_001, 0],
      ["third", 3001, 0],
    ]);
    const expected = new Uint8Array(fileBytes);
    expected.set(bytes.subarray(0, dataOffset));
    for (const chunk of tableChunks(LARGE_SPEC, 5, tensors, Number.POSITIVE_INFINITY)) {
      expected.set(fillTableChunk(chunk, new ArrayBuffer(chunk.rows * 512)), chunk.offset);
    }
    expect(Buffer.compare(bytes, expected)).toBe(0);
    expect((await hashesOf(dir))["tables.safetensors"]).toBe(createHash("sha256").update(bytes).digest("hex"));
    await verifyBundle(dir);
  });

  test("another seed makes other weights, in the same layout", async () => {
    const [one, two] = [await temporaryDirectory(), await temporaryDirectory()];
    await exportBundle({ spec: TINY_SPEC, seed: 1, dir: one });
    await exportBundle({ spec: TINY_SPEC, seed: 2, dir: two });
    const [first, second] = [await hashesOf(one), await hashesOf(two)];
    const same = Object.keys(first).filter((file) => first[file] === second[file]);
    expect(same).toEqual(["dense.stablehlo.mlir"]);
  });
});

test("progress grows to exactly the total, and names the files in order", async () => {
  const seen: ExportProgress[] = [];
  const dir = await temporaryDirectory();
  await exportBundle({ spec: LARGE_SPEC, dir, onProgress: (progress) => seen.push(progress) });
  expect(seen.length).toBeGreaterThan(20);
  for (const [index, { writtenBytes }] of seen.entries()) {
    if (index > 0) expect(writtenBytes).toBeGreaterThanOrEqual((seen[index - 1] as ExportProgress).writtenBytes);
  }
  expect(seen.at(-1)?.writtenBytes).toBe(seen.at(-1)?.totalBytes);
  expect([...new Set(seen.map(({ file }) => file))]).toEqual([
    "tables.safetensors",
    "dense.safetensors",
    "dense.onnx",
    "dense.stablehlo.mlir",
  ]);
});

describe("an interrupted export", () => {
  test.each(["tables.safetensors", "dense.safetensors", "dense.onnx", "dense.stablehlo.mlir"])(
    "leaves nothing when it is stopped in %s",
    async (stopIn) => {
      const parent = await temporaryDirectory();
      const controller = new AbortController();
      const reason = new Error("enough");
      const exporting = exportBundle({
        spec: LARGE_SPEC,
        dir: path.join(parent, "bundle"),
        signal: controller.signal,
        onProgress: ({ file }) => {
          if (file === stopIn) controller.abort(reason);
        },
      });
      await expect(exporting).rejects.toBe(reason);
      expect(await readdir(parent)).toEqual([]);
    },
  );

  test("leaves nothing when the caller's progress function throws", async () => {
    const parent = await temporaryDirectory();
    const exporting = exportBundle({
      spec: LARGE_SPEC,
      dir: path.join(parent, "bundle"),
      onProgress: () => {
        throw new Error("no terminal");
      },
    });
    await expect(exporting).rejects.toThrow("no terminal");
    expect(await readdir(parent)).toEqual([]);
  });

  test("does not begin if the signal is aborted already", async () => {
    const parent = await temporaryDirectory();
    const dir = path.join(parent, "bundle");
    await expect(exportBundle({ spec: TINY_SPEC, dir, signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: "AbortError",
    });
    expect(await readdir(parent)).toEqual([]);
  });
});

describe("an existing target", () => {
  test("is refused by default, even if it is the same bundle", async () => {
    const dir = await temporaryDirectory();
    await exportBundle({ spec: TINY_SPEC, dir });
    const before = await readFile(path.join(dir, "model.json"));
    await expect(exportBundle({ spec: TINY_SPEC, dir })).rejects.toMatchObject({ code: "bundle_exists" });
    expect(await readFile(path.join(dir, "model.json"))).toEqual(before);
  });

  test("is reused if it is the same bundle and that is wanted; made if there is none", async () => {
    const dir = path.join(await temporaryDirectory(), "bundle");
    const first = await exportBundle({ spec: TINY_SPEC, seed: 3, dir, existing: "reuse" });
    const again = await exportBundle({ spec: TINY_SPEC, seed: 3, dir, existing: "reuse" });
    expect([first.reused, again.reused]).toEqual([false, true]);
    expect({ ...again, reused: false }).toEqual(first);
  });

  test.each<[string, object, string]>([
    ["seed", { seed: 4 }, "another seed"],
    ["version", { version: "2" }, "another version"],
    ["buckets", { buckets: [1] }, "another buckets"],
    ["spec and seed", { spec: { ...TINY_SPEC, name: "other" }, seed: 4 }, "another seed, spec"],
  ])("of another %s is not reused", async (_name, change, message) => {
    const dir = await temporaryDirectory();
    await exportBundle({ spec: TINY_SPEC, dir });
    await expect(exportBundle({ spec: TINY_SPEC, dir, existing: "reuse", ...change })).rejects.toMatchObject({
      code: "bundle_exists",
      message: `${dir} exists already and is not this bundle (${message})`,
    });
  });

  test.each(["model.json", "tables.safetensors", "dense.safetensors", "dense.onnx", "dense.stablehlo.mlir"])(
    "is not reused after a byte of %s has changed",
    async (file) => {
      const dir = await temporaryDirectory();
      await exportBundle({ spec: TINY_SPEC, dir });
      const bytes = await readFile(path.join(dir, file));
      bytes[bytes.length - 3] = (bytes.at(-3) as number) ^ 1;
      await writeFile(path.join(dir, file), bytes);
      const error = (await exportBundle({ spec: TINY_SPEC, dir, existing: "reuse" }).catch(
        (reason: unknown) => reason,
      )) as ModelError;
      expect(error.code).toBe("bundle_exists");
      expect(error.message).toContain(file);
    },
  );

  test("whose tables are too large to hash is not reused after rows have become zeros", async () => {
    const spec = {
      ...LARGE_SPEC,
      features: [{ name: "only", vocabularySize: 270_000, hotSize: 1, pooling: "sum" as const }],
    };
    const dir = await temporaryDirectory();
    const { paths } = await exportBundle({ spec, dir });
    expect((await exportBundle({ spec, dir, existing: "reuse" })).reused).toBe(true);
    const file = await open(paths.tables, "r+");
    await file.write(new Uint8Array(5000 * 512), 0, 5000 * 512, 4096 + 100_000 * 512);
    await file.close();
    await expect(exportBundle({ spec, dir, existing: "reuse" })).rejects.toMatchObject({
      code: "bundle_exists",
      message: expect.stringMatching(/row \d+ of table only is not what seed 1 makes/) as string,
    });
  });

  test("that is no bundle is refused and kept", async () => {
    const dir = await temporaryDirectory();
    await writeFile(path.join(dir, "notes.txt"), "mine");
    await expect(exportBundle({ spec: TINY_SPEC, dir, existing: "reuse" })).rejects.toMatchObject({
      code: "bundle_exists",
      message: expect.stringContaining("model.json cannot be read") as string,
    });
    expect(await readdir(dir)).toEqual(["notes.txt"]);
  });
});

test.each<[string, object, string, string]>([
  ["a spec", { spec: { ...TINY_SPEC, name: "" } }, "invalid_spec", "name: expected 1 to 128 letters"],
  ["a seed", { seed: 2 ** 32 }, "invalid_option", "seed: expected an integer from 0 to 4294967295, got 4294967296"],
  [
    "buckets",
    { buckets: [2, 1] },
    "invalid_option",
    "buckets: expected each to be larger than the one before, got [2,1]",
  ],
  ["a version", { version: "" }, "invalid_option", "version: expected a text, got an empty one"],
])("%s that is not valid is refused before anything is written", async (_name, change, code, message) => {
  const parent = await temporaryDirectory();
  const exporting = exportBundle({ spec: TINY_SPEC, dir: path.join(parent, "bundle"), ...change });
  await expect(exporting).rejects.toMatchObject({ code, message: expect.stringContaining(message) as string });
  expect(await readdir(parent)).toEqual([]);
});

test("a bundle that does not fit on the disk is refused at once", async () => {
  const parent = await temporaryDirectory();
  // 2 petabytes of tables.
  const features = Array.from({ length: 1000 }, (_, index) => ({
    name: `huge_${index}`,
    vocabularySize: 2 ** 31 - 1,
    hotSize: 1,
    pooling: "sum" as const,
  }));
  const spec = {
    ...LARGE_SPEC,
    embeddingDim: 256,
    features,
    denseNetwork: { ...LARGE_SPEC.denseNetwork, bottomMlp: [256] },
  };
  await expect(exportBundle({ spec, dir: path.join(parent, "bundle"), buckets: [1] })).rejects.toMatchObject({
    code: "no_space",
    message: expect.stringMatching(
      /^the bundle needs 2199023\.\d GB, the file system of .* has \d+\.\d GB left$/,
    ) as string,
  });
  expect(await readdir(parent)).toEqual([]);
});
