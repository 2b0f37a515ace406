import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { TINY_SPEC } from "../test/tiny-spec.ts";
import { presetSpec } from "./presets.ts";
import { fillTableChunk, tableChunks } from "./table-chunks.ts";
import { tablesLayout } from "./write-tables.ts";

test("chunks cover every row of every table once, in the order of the file", () => {
  const { tensors } = tablesLayout(TINY_SPEC);
  // 700 rows of 20 bytes.
  const chunks = [...tableChunks(TINY_SPEC, 1, tensors, 14_010)];
  expect(chunks.map(({ offset, firstRow, rows }) => [offset, firstRow, rows])).toEqual([
    [4096, 0, 7],
    [8192, 0, 700],
    [8192 + 14_000, 700, 700],
    [8192 + 28_000, 1400, 100],
    [40_960, 0, 1],
  ]);
});

test("a row larger than a chunk is a chunk of its own", () => {
  const { tensors } = tablesLayout(TINY_SPEC);
  expect([...tableChunks(TINY_SPEC, 1, tensors, 1)]).toHaveLength(1508);
});

test("cutting does not change the bytes", () => {
  const { tensors } = tablesLayout(TINY_SPEC);
  const hashOf = (chunkBytes: number): string => {
    const hash = createHash("sha256");
    for (const chunk of tableChunks(TINY_SPEC, 1, tensors, chunkBytes)) {
      hash.update(fillTableChunk(chunk, new ArrayBuffer(chunk.rows * chunk.width * 4)));
    }
    return hash.digest("hex");
  };
  expect(hashOf(20)).toBe(hashOf(1 << 20));
  expect(hashOf(333)).toBe(hashOf(1 << 20));
});

test("the last rows of the largest tables of dcnv2-6m have the bytes they always had", () => {
  const spec = presetSpec("dcnv2-6m");
  const hash = createHash("sha256");
  for (const chunk of tableChunks(spec, 1, tablesLayout(spec).tensors, Number.POSITIVE_INFINITY)) {
    const rows = Math.min(1000, chunk.rows);
    const last = { ...chunk, firstRow: chunk.rows - rows, rows };
    hash.update(fillTableChunk(last, new ArrayBuffer(rows * chunk.width * 4)));
  }
  expect(hash.digest("hex")).toBe("ac045ac39228e113b36f198ee94f686f8934af81d5cf9e0e85260273815db6af");
});
