import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { exportBundle } from "./export-bundle.ts";
import { formatManifest, parseManifest } from "./manifest.ts";
import type { ModelError } from "./model-error.ts";
import { verifyBundle } from "./verify-bundle.ts";

const FILES = ["model.json", "tables.safetensors", "dense.safetensors", "dense.onnx", "dense.stablehlo.mlir"];

test("an exported bundle verifies, and progress ends with all bytes", async () => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, dir, buckets: [1, 2] });
  const seen: { file: string; readBytes: number; totalBytes: number }[] = [];
  const bundle = await verifyBundle(dir, { onProgress: (progress) => seen.push(progress) });
  expect(bundle.spec).toEqual(TINY_SPEC);
  expect(seen.map(({ file }) => file)).toEqual(FILES.slice(1));
  expect(seen.at(-1)?.readBytes).toBe(seen.at(-1)?.totalBytes);
});

test.each(FILES)("one changed byte of %s is noticed, wherever it is, and the file named", async (file) => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  const original = await readFile(path.join(dir, file));
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: original.length - 1 }), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const changed = Buffer.from(original);
      changed[at] = (changed[at] as number) ^ flip;
      await writeFile(path.join(dir, file), changed);
      const error = await verifyBundle(dir).catch((reason: unknown) => reason as ModelError);
      expect(["corrupt_bundle", "invalid_bundle"]).toContain((error as ModelError).code);
      expect((error as ModelError).message).toContain(file);
    }),
    { numRuns: 40 },
  );
  await writeFile(path.join(dir, file), original);
  await expect(verifyBundle(dir)).resolves.toMatchObject({ dir });
});

test("all files that are wrong are named at once", async () => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  for (const file of FILES.slice(1)) {
    const bytes = await readFile(path.join(dir, file));
    await writeFile(path.join(dir, file), bytes.fill(0, bytes.length - 1));
  }
  const error = (await verifyBundle(dir).catch((reason: unknown) => reason)) as ModelError;
  expect(error.code).toBe("corrupt_bundle");
  expect(error.message.match(/\S+: expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}/g)).toHaveLength(4);
});

test("right hashes of the wrong tensors do not pass", async () => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  const file = path.join(dir, "model.json");
  const { digest: _, ...manifest } = parseManifest(await readFile(file, "utf8"));
  const features = TINY_SPEC.features.map((feature) => ({ ...feature, name: `${feature.name}_id` }));
  await writeFile(file, formatManifest({ ...manifest, spec: { ...TINY_SPEC, features, denseFeatures: 4 } }));
  await expect(verifyBundle(dir)).rejects.toMatchObject({
    code: "corrupt_bundle",
    message: [
      `${dir}: tables.safetensors: expected tensor country_id F32 [7, 5], got none`,
      "tables.safetensors: expected tensor clicks_id F32 [1500, 5], got none",
      "tables.safetensors: expected tensor constant_id F32 [1, 5], got none",
      "dense.safetensors: expected tensor bottom_mlp.0.weight F32 [4, 6], got F32 [3, 6]",
      "dense.safetensors: expected tensor simulated.w F32 [4], got F32 [3]",
    ].join("; "),
  });
});

test("a signal ends it", async () => {
  const dir = await temporaryDirectory();
  await exportBundle({ spec: TINY_SPEC, dir, buckets: [1] });
  await expect(verifyBundle(dir, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
});
