import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { fuzzTargets } from "../fuzz/targets.ts";

test.each(fuzzTargets)("$name: every input of the corpus is decoded as protobuf's own decoder reads it", (target) => {
  const corpus = readFileSync(new URL(`../fuzz/corpus/${target.name}.txt`, import.meta.url), "utf8");
  const lines = corpus.split("\n").filter((line) => line !== "");
  const outcomes = lines.map((line) => target.check(Buffer.from(line, "base64")));
  expect(new Set(outcomes).size).toBeGreaterThan(5);
});
