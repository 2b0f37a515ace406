import { expect, test } from "vitest";
import { fromPjrtError } from "./pjrt-error.ts";

test.each([
  ["resource_exhausted", "out_of_memory"],
  ["plugin_not_found", "plugin_not_found"],
  ["plugin_invalid", "plugin_invalid"],
  ["internal", "run_failed"],
  [undefined, "run_failed"],
])("an error of the binding with code %s is %s", (code, expected) => {
  const cause = Object.assign(new Error("what PJRT says"), code === undefined ? {} : { code });
  expect(fromPjrtError(cause, "run_failed", "the device failed")).toMatchObject({
    code: expected,
    message: "the device failed: what PJRT says",
    cause,
  });
});
