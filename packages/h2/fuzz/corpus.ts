import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Longer inputs are not kept. */
const LARGEST_BYTES = 1500;

const MAX_INPUTS = 300;

const here = new URL("./", import.meta.url);
const fileOf = (target: string, folder: URL): string => fileURLToPath(new URL(`corpus/${target}.txt`, folder));

/** Inputs that were found worth keeping, one a line, base64. */
export function readCorpus(target: string, folder: URL = here): Buffer[] {
  const file = fileOf(target, folder);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => Buffer.from(line, "base64"));
}

/** Writes the inputs, none twice, the shortest first; `reachesMore` decides, in that order, which are worth keeping. */
export function writeCorpus(
  target: string,
  inputs: Iterable<Buffer>,
  reachesMore: (input: Buffer) => boolean,
  folder: URL = here,
): number {
  const lines = new Set(
    [...inputs].filter((each) => each.length <= LARGEST_BYTES).map((each) => each.toString("base64")),
  );
  const kept = [...lines]
    .sort((a, b) => a.length - b.length || (a < b ? -1 : 1))
    .filter((line) => reachesMore(Buffer.from(line, "base64")))
    .slice(0, MAX_INPUTS);
  const file = fileOf(target, folder);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, `${kept.join("\n")}\n`);
  return kept.length;
}
