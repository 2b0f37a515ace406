import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Longer inputs are not kept. */
const LARGEST_BYTES = 1500;

function fileOf(target: string): string {
  return fileURLToPath(new URL(`./corpus/${target}.txt`, import.meta.url));
}

/** Inputs that were found worth keeping, one a line, base64. */
export function readCorpus(target: string): Buffer[] {
  const file = fileOf(target);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => Buffer.from(line, "base64"));
}

/** Writes the shortest 300 of the inputs, none twice. */
export function writeCorpus(target: string, inputs: Iterable<Buffer>): number {
  const lines = new Set(
    [...inputs].filter((each) => each.length <= LARGEST_BYTES).map((each) => each.toString("base64")),
  );
  const kept = [...lines].sort((a, b) => a.length - b.length || (a < b ? -1 : 1)).slice(0, 300);
  writeFileSync(fileOf(target), `${kept.join("\n")}\n`);
  return kept.length;
}
