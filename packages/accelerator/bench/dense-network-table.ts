import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const FILE = fileURLToPath(new URL("../../../docs/results/accelerator/dense-network-cpu.md", import.meta.url));

export interface DenseNetworkRow {
  readonly title: string;
  readonly precision: string;
  /** Microseconds a batch, the median of the rounds. */
  readonly micros: number;
  /** Largest difference of a score to the float64 forward; undefined if it was not compared. */
  readonly error: number | undefined;
}

/** Writes the table of one run; the first row is what the others are compared with. Returns the file. */
export async function writeDenseNetworkTable(
  rows: readonly DenseNetworkRow[],
  batch: number,
  cpu: string,
): Promise<string> {
  const lines = rows.map(({ title, precision, micros, error }) => {
    const throughput = Math.round((batch / micros) * 1e6).toLocaleString("en-US");
    const ratio = `${(rows[0]!.micros / micros).toFixed(2)}×`;
    const difference = error === undefined ? "–" : error.toExponential(1);
    return `| ${title} | ${precision} | ${(micros / 1000).toFixed(1)} | ${throughput} | ${ratio} | ${difference} |`;
  });
  const text = `# The dense network on one CPU core

DLRM-DCNv2's dense network, batches of ${batch}, on one core of: ${cpu}.

Medians of alternating rounds of one run; ratios of throughput to the first row. The error is the largest difference of a score to a
float64 forward, over ${batch} examples. int8 pays where the CPU multiplies integers in hardware (\`avx512_vnni\`, AMX's \`amx_int8\`), bfloat16 where
it has AMX's \`amx_bf16\`. Written by \`nx run accelerator:bench\`.

| device | precision | ms a batch | examples/s | ratio | error of scores |
| --- | --- | ---: | ---: | ---: | ---: |
${lines.join("\n")}
`;
  await mkdir(path.dirname(FILE), { recursive: true });
  await writeFile(FILE, text);
  return FILE;
}
