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
