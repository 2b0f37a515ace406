import { open } from "node:fs/promises";
import type { Bundle } from "./bundle.ts";
import { readFully, readSafetensorsHeader } from "./safetensors-reader.ts";
import { tableChunks, fillTableChunk } from "./table-chunks.ts";

/** Rows of each table that are looked at. */
const SAMPLE_ROWS = 64;

/**
 * Compares rows of every table, the first and the last among them, with what the seed makes; one line for each table that
 * differs. Catches a table of other weights or a part that never reached the disk; `verifyBundle` catches a single bit.
 */
export async function sampleProblems(bundle: Bundle): Promise<string[]> {
  const { spec, seed, paths } = bundle;
  const { tensors } = await readSafetensorsHeader(paths.tables);
  const rowBytes = spec.embeddingDim * 4;
  const problems: string[] = [];
  const file = await open(paths.tables, "r");
  try {
    for (const chunk of tableChunks(spec, seed, tensors, Number.POSITIVE_INFINITY)) {
      const count = Math.min(SAMPLE_ROWS, chunk.rows);
      for (let sample = 0; sample < count; sample++) {
        const row = count === 1 ? 0 : Math.floor((sample * (chunk.rows - 1)) / (count - 1));
        const wanted = fillTableChunk({ ...chunk, firstRow: row, rows: 1 }, new ArrayBuffer(rowBytes));
        const found = await readFully(file, chunk.offset + row * rowBytes, rowBytes, paths.tables);
        if (Buffer.compare(wanted, found) !== 0) {
          const feature = tensors.find(({ offset }) => offset === chunk.offset)?.name;
          problems.push(`${paths.tables}: row ${row} of table ${feature} is not what seed ${seed} makes`);
          break;
        }
      }
    }
  } finally {
    await file.close();
  }
  return problems;
}
