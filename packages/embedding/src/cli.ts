#!/usr/bin/env node
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { EmbeddingError } from "./embedding-error.ts";
import { quantizeFile } from "./quantize-file.ts";
import { measureScoreError, openScorer, openSimulatedScorer } from "./score-error.ts";
import { TABLE_DTYPES } from "./table.ts";
import type { TableDtype } from "./table.ts";

const HELP = `Usage: dlrm-embedding quantize --in FILE --out FILE --dtype DTYPE [options]

Converts the float32 tables of a safetensors file and reports, for each, the error that causes.

  --in FILE          safetensors file to read
  --out FILE         safetensors file to write
  --dtype DTYPE      float16, bfloat16, int8 or int4 (FBGEMM's fused row-wise formats)
  --bundle DIR       also report how scores of this bundle change
  --scorer MODULE    what computes them: a file or package that exports openEmbeddingScorer(bundleDir), such as
                     @dlrm/model (the bundle's dense network; default: the bundle's simulated network)
  --examples N       random examples to score (default 4096, with a scorer 256)
  --version          print the version
  --help
`;

/** A mistake on the command line. */
class UsageError extends Error {}

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals } = parse(args);
  if (values.help === true) {
    process.stdout.write(HELP);
    return;
  }
  if (values.version === true) {
    process.stdout.write(`${await packageVersion()}\n`);
    return;
  }
  if (positionals[0] !== "quantize" || positionals.length > 1) {
    throw new UsageError(`command is ${JSON.stringify(positionals.join(" "))}, expected quantize`);
  }
  if (values.scorer !== undefined && values.bundle === undefined) throw new UsageError("--scorer needs --bundle");
  const { in: input, out: output, dtype } = values;
  if (input === undefined || output === undefined) throw new UsageError("--in and --out are needed");
  if (dtype === undefined || dtype === "float32" || !(TABLE_DTYPES as readonly string[]).includes(dtype)) {
    throw new UsageError(`--dtype is ${dtype ?? "missing"}, expected float16, bfloat16, int8 or int4`);
  }
  const examples = Number(values.examples ?? (values.scorer === undefined ? 4096 : 256));
  if (!Number.isInteger(examples) || examples < 1) {
    throw new UsageError(`--examples is ${values.examples}, expected an integer of at least 1`);
  }
  const tables = await quantizeFile({ input, output, dtype: dtype as TableDtype, onProgress: showProgress });
  if (process.stderr.isTTY) process.stderr.write("\r\u001B[K");
  for (const { name, from, to, bytesBefore, bytesAfter, error } of tables) {
    const ratio = (bytesBefore / bytesAfter).toFixed(2);
    console.log(
      `${name}: ${from} to ${to}, ${ratio} times smaller, error max ${error.max.toExponential(3)}, RMS ${error.rms.toExponential(3)}`,
    );
  }
  if (values.bundle !== undefined) await reportScoreError(values.bundle, output, examples, values.scorer);
}

async function packageVersion(): Promise<string> {
  const text = await readFile(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

async function reportScoreError(
  bundle: string,
  converted: string,
  examples: number,
  module: string | undefined,
): Promise<void> {
  const scorer = module === undefined ? await openSimulatedScorer(bundle) : await openScorer(module, bundle);
  const error = await measureScoreError(bundle, converted, examples, scorer);
  await scorer.close?.();
  const network = module === undefined ? "the simulated network" : module;
  console.log(
    `scores of ${network} over ${error.examples} random examples: change max ${error.max.toExponential(3)}, mean ${error.mean.toExponential(3)}`,
  );
}

const OPTIONS = {
  in: { type: "string" },
  out: { type: "string" },
  dtype: { type: "string" },
  bundle: { type: "string" },
  scorer: { type: "string" },
  examples: { type: "string" },
  version: { type: "boolean", short: "V" },
  help: { type: "boolean" },
} as const;

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // Node's own message goes on about positional arguments.
    const unknown = /^Unknown option '(-[^']*)'/.exec(error.message)?.[1];
    throw new UsageError(unknown === undefined ? error.message : `unknown option ${unknown}${suggestion(unknown)}`);
  }
}

/** Names the option that has the same letters but for one that is missing, wrong or too many, if there is one. */
function suggestion(unknown: string): string {
  const near = Object.keys(OPTIONS).find((name) => isOneEditAway(unknown, `--${name}`));
  return near === undefined ? "" : `; did you mean --${near}?`;
}

function isOneEditAway(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  let start = 0;
  while (start < short.length && short[start] === long[start]) start++;
  // What follows a letter too many, or a wrong one.
  return short.slice(start) === long.slice(start + 1) || short.slice(start + 1) === long.slice(start + 1);
}

let shownPercent = -1;

/** One line that is written over, on a terminal only. */
function showProgress(doneBytes: number, totalBytes: number): void {
  const percent = Math.floor((doneBytes / totalBytes) * 100);
  if (percent === shownPercent || !process.stderr.isTTY) return;
  shownPercent = percent;
  process.stderr.write(`\rconverting: ${percent} % of ${(totalBytes / 1e9).toFixed(1)} GB`);
}

// A reader that ends first, such as head, or tee at Ctrl-C, or a terminal that is closed, is no reason to end.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`dlrm-embedding: ${error.message}\n\n${HELP}`);
    process.exitCode = 2;
  } else if (error instanceof EmbeddingError) {
    process.stderr.write(`dlrm-embedding: ${error.message}\n`);
    process.exitCode = 1;
  } else {
    throw error;
  }
}
