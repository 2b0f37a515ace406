import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { requireFreeSpace } from "./free-space.ts";

const folder = path.join(tmpdir(), "not-made-yet", "bundle");

it("asks for no more than there is", () => {
  expect(() => requireFreeSpace(folder, 1, "the model")).not.toThrow();
});

it("says how much is missing before anything is written", () => {
  expect(() => requireFreeSpace(folder, 2 ** 60, "the model")).toThrow(
    /^the model needs 1073741824\.00 GiB in .*bundle, where [\d.]+ GiB are free: free some, or set --work_dir$/,
  );
});
