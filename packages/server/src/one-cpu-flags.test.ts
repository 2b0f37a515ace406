import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { flagsFor } from "./one-cpu-flags.ts";

test("only a process with one CPU gets them", () => {
  expect(flagsFor(1)).toEqual([
    "--no-parallel-scavenge",
    "--semi-space-growth-factor=1",
    "--heap-growing-percent=1000",
  ]);
  expect(flagsFor(2)).toEqual([]);
});

test("set while the process runs, they keep the young generation at the size it has", () => {
  const script = `
    const v8 = require("node:v8");
    const sizeBytes = () => v8.getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size;
    for (const flag of ${JSON.stringify(flagsFor(1))}) v8.setFlagsFromString(flag);
    const beforeBytes = sizeBytes();
    const kept = [];
    for (let i = 0; i < 300000; i++) kept[i % 30000] = { i, list: [i] };
    console.log(sizeBytes() <= Math.max(beforeBytes, 2 * 1024 * 1024));
  `;
  expect(execFileSync(process.execPath, ["-e", script], { encoding: "utf8" })).toBe("true\n");
});

test("set while the process runs, they make full collections rare though many requests outlive young ones", () => {
  // 20,000 objects are alive at any time, and all are garbage a moment later: most are promoted.
  const script = `
    const v8 = require("node:v8");
    for (const flag of JSON.parse(process.argv[1])) v8.setFlagsFromString(flag);
    const profiler = new v8.GCProfiler();
    profiler.start();
    const kept = [];
    for (let i = 0; i < 2000000; i++) kept[i % 20000] = { i, list: [i, i, i, i], inner: { i } };
    console.log(profiler.stop().statistics.filter(({ gcType }) => gcType === "MarkSweepCompact").length);
  `;
  const fullCollections = (flags: readonly string[]): number =>
    Number(execFileSync(process.execPath, ["-e", script, JSON.stringify(flags)], { encoding: "utf8" }));
  const usual = flagsFor(1).filter((flag) => !flag.includes("heap-growing"));
  expect(fullCollections(flagsFor(1))).toBeLessThan(fullCollections(usual));
});
