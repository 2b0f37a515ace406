import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { versionReport } from "./version-report.ts";

const COMPLETE = [
  /^dlrm-serve \d+\.\d+\.\d+$/u,
  /^node v\d/u,
  /^gather kernel: (?:native|[\w ]+ \(not native: .+\))/u,
  /^device onnxruntime: available, onnxruntime \d/u,
  /^device simulated: available$/u,
  /^device pjrt: (?:available|not available: .+)$/u,
];

function linesLike(patterns: readonly RegExp[]): unknown[] {
  return patterns.map((pattern) => expect.stringMatching(pattern) as unknown);
}

test("everything is tried", async () => {
  expect((await versionReport()).split("\n")).toEqual(linesLike(COMPLETE));
});

test("where nothing can be written, all but a model's run is tried", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "dlrm-version-"));
  try {
    // Nobody can make a folder in a file.
    const file = path.join(dir, "file");
    await writeFile(file, "");
    const untried = /^device onnxruntime: available, not tried with a model: ENOTDIR: /u;
    expect((await versionReport(file)).split("\n")).toEqual(linesLike(COMPLETE.with(3, untried)));
  } finally {
    await rm(dir, { recursive: true });
  }
});
