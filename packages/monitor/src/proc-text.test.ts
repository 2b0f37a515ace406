import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { statText } from "../test/fake-proc.ts";
import { parseContextSwitches, parsePids, parsePssBytes, parseSchedstatMicros, parseStat } from "./proc-text.ts";

describe("parseStat", () => {
  test("reads a line as the kernel writes it", () => {
    const line =
      "3173 (node) S 3100 3173 3100 34816 3173 4194304 9120 33 5 0 411 87 12 3 20 0 11 0 90210 1144815616 18421 18446744073709551615 1 1 0 0 0 0 0 16781312 134370818 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    expect(parseStat(line)).toEqual({
      pid: 3173,
      name: "node",
      state: "S",
      parentPid: 3100,
      ownTicks: 498,
      reapedTicks: 15,
      startTicks: 90_210,
      rssPages: 18_421,
    });
  });

  test("names with spaces, parentheses and line ends do not shift the fields", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 15 }), fc.nat(), fc.nat(), (name, user, pages) => {
        const stat = parseStat(statText({ pid: 7, parentPid: 3, name, user, rssPages: pages }));
        expect(stat).toMatchObject({ pid: 7, name, parentPid: 3, ownTicks: user, rssPages: pages });
      }),
    );
    expect(parseStat(statText({ pid: 7, parentPid: 3, name: ") R 9 (x" }))).toMatchObject({ parentPid: 3, state: "S" });
  });

  test.each(["", "12", "12 (x", "12 (x) S 1", ") 1 ("])("%j is no line of a process", (text) => {
    expect(parseStat(text)).toBeUndefined();
  });

  test("does not throw on any text", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        parseStat(text);
        parsePssBytes(text);
        expect(parseContextSwitches(text)).toBeGreaterThanOrEqual(0);
        expect(parsePids(text).every(Number.isFinite)).toBe(true);
      }),
    );
  });
});

test("parsePssBytes takes Pss, and neither Pss_Anon nor SwapPss", () => {
  const text = "SwapPss: 9 kB\nRss:  5000 kB\nPss:   1234 kB\nPss_Dirty:  8 kB\nPss_Anon:  7 kB\n";
  expect(parsePssBytes(text)).toBe(1234 * 1024);
  expect(parsePssBytes("Rss: 1 kB\n")).toBeUndefined();
});

test("parseContextSwitches adds up both kinds", () => {
  expect(parseContextSwitches("Name:\tx\nvoluntary_ctxt_switches:\t15\nnonvoluntary_ctxt_switches:\t4\n")).toBe(19);
  expect(parseContextSwitches("Name:\tx\n")).toBe(0);
});

test.each([
  ["1234567 89 10\n", 1234.567],
  ["", 0],
  ["x", 0],
])("parseSchedstatMicros(%j)", (text, micros) => {
  expect(parseSchedstatMicros(text)).toBe(micros);
});

test("parsePids", () => {
  expect(parsePids("12 345 \n")).toEqual([12, 345]);
  expect(parsePids("")).toEqual([]);
});
