import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { addTicks, NO_TICKS, readCpuTicks, stealFraction } from "./cpu-ticks.ts";

it("reads the time of the CPUs that it is asked for and what was stolen of it", () => {
  const file = path.join(tempFolder("stat"), "stat");
  const lines = ["cpu  100 5 20 300 10 1 4 60 77 0", "cpu1 10 0 0 50 0 0 0 40 9 0", "cpu11 1 1 1 1 1 1 1 3 1 1"];
  writeFileSync(file, `${lines.join("\n")}\n`);
  expect(readCpuTicks([1], file)).toEqual({ all: 100, steal: 40 });
  expect(readCpuTicks([1, 11], file)).toEqual({ all: 110, steal: 43 });
  expect(readCpuTicks([1, 2], file), "of all where one is not there").toEqual({ all: 500, steal: 60 });
  expect(readCpuTicks([1], `${file}-none`)).toBeUndefined();
});

it("gives the stolen share of the time between, over several sessions", () => {
  const first = addTicks(NO_TICKS, { all: 100, steal: 10 }, { all: 300, steal: 20 });
  expect(stealFraction(first)).toBe(0.05);
  const both = addTicks(first, { all: 1000, steal: 500 }, { all: 1200, steal: 590 });
  expect(stealFraction(both)).toBe(0.25);
  expect(addTicks(first, { all: 100, steal: 10 }, { all: 50, steal: 5 })).toEqual(first);
  expect(addTicks(first, undefined, { all: 1, steal: 0 })).toEqual(first);
  expect(stealFraction(NO_TICKS)).toBeUndefined();
});
