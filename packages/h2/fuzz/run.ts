/**
 * `nx run h2:fuzz -- [--inputs N] [--seed N] [--target hpack|server|client] [--write-corpus]`: a long run. It stops at the first
 * input that breaks a promise, and prints it.
 */
import { parseArgs } from "node:util";
import { readCorpus, writeCorpus } from "./corpus.ts";
import { fuzz, FuzzFailure, fuzzTargets } from "./fuzzer.ts";

const { values } = parseArgs({
  options: {
    inputs: { type: "string", default: "1000000" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    target: { type: "string" },
    "write-corpus": { type: "boolean", default: false },
  },
});
for (const target of fuzzTargets) {
  if (values.target !== undefined && values.target !== target.name) continue;
  const seed = Number(values.seed);
  const corpus = readCorpus(target.name);
  const startedMs = performance.now();
  try {
    const { inputs, outcomes } = fuzz(target, {
      seed,
      inputs: Number(values.inputs),
      corpus,
      onProgress: (done, kinds) => process.stderr.write(`\r${target.name}: ${done} inputs, ${kinds} outcomes `),
    });
    const seconds = (performance.now() - startedMs) / 1000;
    console.log(
      `\r${target.name}: ${inputs} inputs, seed ${seed}, ${outcomes.size} kinds of outcome, ${Math.round(inputs / seconds)} inputs a second, nothing broken`,
    );
    if (values["write-corpus"])
      console.log(`${target.name}: ${writeCorpus(target.name, [...outcomes.values(), ...corpus])} inputs kept`);
  } catch (error) {
    if (!(error instanceof FuzzFailure)) throw error;
    console.error(`\n${error.message}`);
    console.error(error.cause);
    process.exit(1);
  }
}
