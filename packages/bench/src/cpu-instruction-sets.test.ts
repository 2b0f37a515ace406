import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { cpuInstructionSets } from "./cpu-instruction-sets.ts";

function cpuinfo(text: string): string {
  const file = path.join(tempFolder("cpuinfo"), "cpuinfo");
  writeFileSync(file, text);
  return file;
}

it("names those that decide, of the first CPU, and no others", () => {
  const file = cpuinfo(
    "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu sse2 amx_int8 avx2 avx512f avx512_vnnix\n\nprocessor\t: 1\nflags\t\t: avx512_vnni\n",
  );
  expect(cpuInstructionSets(file)).toBe("avx2 avx512f amx_int8");
});

it("reads an Arm CPU's", () => {
  expect(cpuInstructionSets(cpuinfo("processor\t: 0\nFeatures\t: fp asimd i8mm\n"))).toBe("asimd i8mm");
});

it("says nothing where nothing is told, and that there are none where there are none", () => {
  expect(cpuInstructionSets("/no/such/cpuinfo")).toBeUndefined();
  expect(cpuInstructionSets(cpuinfo("processor\t: 0\nmmu\t: sv48\n"))).toBeUndefined();
  expect(cpuInstructionSets(cpuinfo("flags\t: fpu sse2\n"))).toBe("");
});
