import { expect, test } from "vitest";
import { readCorpus } from "../fuzz/corpus.ts";
import { fuzz } from "../fuzz/fuzzer.ts";
import { Random } from "../fuzz/random.ts";
import { fuzzTargets } from "../fuzz/targets.ts";

test.each(fuzzTargets)("$name: every input of the corpus keeps the promises", (target) => {
  const outcomes = readCorpus(target.name).map((input) => target.check(input, new Random(1)));
  expect(new Set(outcomes).size).toBeGreaterThan(10);
});

test.each(fuzzTargets)("$name: new inputs, the same each time, keep the promises", async (target) => {
  const { outcomes } = await fuzz(target, { seed: 1, inputs: 1500 });
  expect(outcomes.size).toBeGreaterThan(10);
});
