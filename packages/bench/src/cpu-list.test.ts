import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatCpuList, parseCpuList } from "./cpu-list.ts";

describe("parseCpuList", () => {
  it.each([
    ["0", [0]],
    ["0-3,8", [0, 1, 2, 3, 8]],
    [" 5 , 1-2 ", [1, 2, 5]],
    ["1,1-2,2", [1, 2]],
  ])("%j is %j", (text, cpus) => {
    expect(parseCpuList(text)).toEqual(cpus);
  });

  it.each(["", "a", "1-", "-1", "3-1", "1,,2", "1;2", "1.5", "0x1", "99999"])("%j is no list", (text) => {
    expect(parseCpuList(text)).toBeUndefined();
  });
});

it("formatCpuList gives a list that reads back as the same CPUs", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(300), { minLength: 1 }), (cpus) => {
      expect(parseCpuList(formatCpuList(cpus))).toEqual([...cpus].sort((a, b) => a - b));
    }),
  );
  expect(formatCpuList([5, 0, 1, 2])).toBe("0-2,5");
  expect(formatCpuList([1, 0])).toBe("0-1");
});
