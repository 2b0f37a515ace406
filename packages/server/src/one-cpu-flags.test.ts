import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { flagsFor } from "./one-cpu-flags.ts";

test("only a process with one CPU gets them", () => {
  expect(flagsFor(1)).toEqual(["--no-parallel-scavenge", "--no-concurrent-marking"]);
  expect(flagsFor(2)).toEqual([]);
});

test("set while the process runs, they are known, and what waits for a while stays young: no full collection", () => {
  // As a server: 8,000 objects wait at any time, each until as many more have come.
  const script = `
    const v8 = require("node:v8");
    for (const flag of ${JSON.stringify(flagsFor(1))}) v8.setFlagsFromString(flag);
    const kept = new Array(8000);
    for (let i = 0; i < 3e6; i++) kept[i % 8000] = { i, list: [i], text: "x" + i };
  `;
  const collections = execFileSync(process.execPath, ["--trace-gc", "-e", script], { encoding: "utf8" });
  expect(collections).toContain("Scavenge");
  expect(collections).not.toContain("Mark-Compact");
});
