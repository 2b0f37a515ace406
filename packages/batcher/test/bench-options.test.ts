import { describe, expect, test } from "vitest";
import { optionsOf, USAGE } from "../bench/options.ts";

describe("the bench's command line", () => {
  test.each([
    [[], { quick: false, docs: false, only: undefined, seed: 1 }],
    [["--quick", "--docs", "--only=costs", "--seed", "7"], { quick: true, docs: true, only: "costs", seed: 7 }],
    [["--help"], "help"],
    [["-h"], "help"],
  ])("%j", (args, expected) => {
    expect(optionsOf(args)).toEqual(expected);
  });

  test.each([
    [["--quik"], `unknown flag --quik; did you mean --quick?\n\n${USAGE}`],
    [["--sede=3"], `unknown flag --sede; did you mean --seed?\n\n${USAGE}`],
    [["--everything"], `unknown flag --everything\n\n${USAGE}`],
    [["--only", "grid"], "--only: expected simulation or costs, received grid"],
    [["--seed", "0x10"], "--seed: expected a whole number below 10^9, received 0x10"],
    [["--seed=-1"], "--seed: expected a whole number below 10^9, received -1"],
  ])("%j is refused", (args, problem) => {
    expect(optionsOf(args)).toEqual({ problem });
  });

  test.each([[["costs"]], [["--only"]], [["--quick=yes"]]])("%j is refused with the usage", (args) => {
    expect(optionsOf(args)).toMatchObject({ problem: expect.stringContaining(USAGE) as string });
  });
});
