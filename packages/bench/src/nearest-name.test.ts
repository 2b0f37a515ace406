import { expect, it } from "vitest";
import { nearestName } from "./nearest-name.ts";

it.each([
  ["enigne", "engine"],
  ["engine-bacth", "engine-batch"],
  ["pyy", undefined],
  ["nothing", undefined],
  ["", undefined],
])("%j is nearest to %j", (name, nearest) => {
  expect(nearestName(name, ["engine", "engine-batch", "engine-nobatch", "py"])).toBe(nearest);
});
