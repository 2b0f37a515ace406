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

function expectLines(report: string, expected: readonly RegExp[]): void {
  const lines = report.split("\n");
  expect(lines).toHaveLength(expected.length);
  for (const [index, pattern] of expected.entries()) expect(lines[index]).toMatch(pattern);
}

test("everything is tried", async () => {
  expectLines(await versionReport(), COMPLETE);
});

test("where nothing can be written, all but a model's run is tried", async () => {
  const dir = await mkdtemp(path.join(tmpdir(), "dlrm-version-"));
  try {
    // Nobody can make a folder in a file.
    const file = path.join(dir, "file");
    await writeFile(file, "");
    const untried = /^device onnxruntime: available, not tried with a model: ENOTDIR: /u;
    expectLines(await versionReport(file), COMPLETE.with(3, untried));
  } finally {
    await rm(dir, { recursive: true });
  }
});
