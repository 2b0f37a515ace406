/**
 * `nx run h2:fuzz -- [--inputs N] [--seconds N] [--seed N] [--target hpack|server|client] [--module FILE] [--write-corpus]`: a
 * long run, guided by coverage. It stops at the first input that breaks a promise, and prints it. `--module` fuzzes targets
 * of another package: a file that exports `fuzzTargets`, with its corpus beside it.
 */
import path from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { Coverage, instrumentSources } from "./coverage.ts";
import type { FuzzTarget } from "./fuzzer.ts";

const { values } = parseArgs({
  options: {
    inputs: { type: "string", default: "1000000" },
    seconds: { type: "string", default: "Infinity" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    target: { type: "string" },
    module: { type: "string" },
    "write-corpus": { type: "boolean", default: false },
  },
});

// Most inputs end in an error, of which nobody wants to know where it was made.
Error.stackTraceLimit = 0;
// Only what is imported from here on is instrumented.
instrumentSources();
const file =
  values.module === undefined ? new URL("./targets.ts", import.meta.url) : pathToFileURL(path.resolve(values.module));
const { fuzz, FuzzFailure } = await import("./fuzzer.ts");
const { Random } = await import("./random.ts");
const { readCorpus, writeCorpus } = await import("./corpus.ts");
const { fuzzTargets } = (await import(file.href)) as { readonly fuzzTargets: readonly FuzzTarget[] };

for (const target of fuzzTargets) {
  if (values.target !== undefined && values.target !== target.name) continue;
  const coverage = new Coverage();
  const startedMs = performance.now();
  const seconds = (): number => (performance.now() - startedMs) / 1000;
  const known = readCorpus(target.name, file);
  try {
    const { inputs, corpus } = await fuzz(target, {
      seed: Number(values.seed),
      inputs: Number(values.inputs),
      corpus: known,
      news: coverage,
      onProgress(done, kept) {
        const [reached, places] = coverage.reached;
        process.stderr.write(`\r${target.name}: ${done} inputs, ${kept} kept, ${reached} of ${places} places `);
        return seconds() < Number(values.seconds);
      },
    });
    const [reached, places] = coverage.reached;
    console.log(
      `\r${target.name}: ${inputs} inputs seed ${values.seed}, ${reached} of ${places} places reached, ${Math.round(inputs / seconds())} inputs a second, nothing broken`,
    );
    if (values["write-corpus"]) {
      const all = new Coverage();
      const reachesMore = (input: Buffer): boolean => {
        target.check(input, new Random(1));
        return all.takeNews();
      };
      console.log(`${target.name}: ${writeCorpus(target.name, [...known, ...corpus], reachesMore, file)} inputs kept`);
    }
  } catch (error) {
    if (!(error instanceof FuzzFailure)) throw error;
    console.error(`\n${error.message}`);
    console.error(error.cause);
    process.exit(1);
  }
}
