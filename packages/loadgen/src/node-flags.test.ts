import { expect, test } from "vitest";
import { inheritedNodeFlags } from "./node-flags.ts";

test.each<[string[], string[]]>([
  [[], []],
  [["--conditions=@dlrm/source"], ["--conditions=@dlrm/source"]],
  [
    ["-C", "a", "--conditions", "b"],
    ["-C", "a", "--conditions", "b"],
  ],
  [
    ["--inspect", "--conditions=a", "--cpu-prof", "--enable-source-maps"],
    ["--conditions=a", "--enable-source-maps"],
  ],
  [["--input-type=module", "-e", "await runLoad()", "--import", "./hook.js"], []],
])("of %j a child inherits %j", (execArgv, inherited) => {
  expect(inheritedNodeFlags(execArgv)).toEqual(inherited);
});
