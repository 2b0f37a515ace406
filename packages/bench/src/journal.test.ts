import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Journal, readJournal } from "./journal.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "bench-journal-"));
});

afterEach(() => rmSync(folder, { recursive: true }));

const journal: Journal = {
  journalVersion: 1,
  startedAt: "2026-11-29T12:00:00.000Z",
  resumedAt: [],
  loadAverageBefore: 0.5,
  settings: { command: "dlrm-bench --repeats 3", repeats: 3, concurrencies: [1, 4], startTimeoutS: 300 },
  findings: { points: [], parity: [], warnings: [] },
};

function save(text: string): void {
  writeFileSync(path.join(folder, "run.json"), text);
}

it("is read where the settings are the same, but for what says how long to wait", () => {
  save(JSON.stringify(journal));
  expect(readJournal(folder, { ...journal.settings, command: "x", startTimeoutS: 5 })).toEqual(journal);
});

it("is refused with every setting that differs", () => {
  save(JSON.stringify(journal));
  const { repeats: _, ...settings } = journal.settings;
  expect(() => readJournal(folder, { ...settings, concurrencies: [1] })).toThrow(
    "--resume: expected the settings of the run that is continued, got others\n  repeats: it had 3, now none\n" +
      "  concurrencies: it had [1,4], now [1]\n  it was: dlrm-bench --repeats 3",
  );
});

it.each([
  ["none", undefined, /^--resume: expected a run to continue, got no .*run\.json: ENOENT/],
  [
    "half a file",
    '{"journalVersion": 1, ',
    /^--resume: .*run\.json is damaged: .*JSON.*; without --resume a new run begins$/,
  ],
  ["no object", "null\n", /run\.json is damaged: expected an object, got null; without/],
  ["no settings", '{"journalVersion":1}', /run\.json is damaged: settings: expected an object, got undefined; without/],
  [
    "no findings",
    '{"journalVersion":1,"settings":{},"findings":7}',
    /run\.json is damaged: findings: expected an object, got number; without/,
  ],
  [
    "a finding missing",
    '{"journalVersion":1,"settings":{},"resumedAt":[],"findings":{"points":[],"parity":{}}}',
    /run\.json is damaged: parity: expected a list, got object; without/,
  ],
  ["another version", '{"journalVersion": 2}', /^--resume: expected .*run\.json of version 1, got 2$/],
])("is refused if there is %s", (_, text, message) => {
  if (text !== undefined) save(text);
  expect(() => readJournal(folder, {})).toThrow(message);
});
