import { expect, test } from "vitest";
import { readCorpus } from "../fuzz/corpus.ts";
import { fuzz, fuzzTargets } from "../fuzz/fuzzer.ts";
import { Random } from "../fuzz/random.ts";

test.each(fuzzTargets)("$name: every input of the corpus keeps the promises", (target) => {
  const outcomes = readCorpus(target.name).map((input) => target.check(input, new Random(1)));
  expect(new Set(outcomes).size).toBeGreaterThan(10);
});

test.each(fuzzTargets)("$name: new inputs, the same each time, keep the promises", (target) => {
  const { outcomes } = fuzz(target, { seed: 1, inputs: 1500 });
  expect(outcomes.size).toBeGreaterThan(10);
});
