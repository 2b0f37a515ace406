import { readFileSync } from "node:fs";
import path from "node:path";
import type { SummaryEnvironment, SummarySettings } from "@dlrm/reporter";
import { BenchError, messageOf } from "./bench-error.ts";
import type { CpuTicks } from "./cpu-ticks.ts";
import type { FindingsState } from "./findings.ts";

/** `run.json` of a run: what `--resume` continues from. Written anew after every point. */
export interface Journal {
  readonly journalVersion: 1;
  readonly startedAt: string;
  /** When the run was continued, if it was. */
  readonly resumedAt: readonly string[];
  readonly loadAverageBefore: number;
  /** As it was when the run began. A journal of an earlier version has none. */
  readonly machine?: SummaryEnvironment;
  /** Of all sessions until now. */
  readonly ticks?: CpuTicks;
  readonly settings: SummarySettings;
  readonly findings: FindingsState;
}

export const JOURNAL_FILE = "run.json";

/** Settings that a run may be continued with others of: they say where and how long, not what. */
const MAY_DIFFER = new Set(["command", "startTimeoutS"]);

/**
 * The journal of the run in a folder of results.
 *
 * @throws BenchError `usage` if there is none, or it is of a run with other settings; the message names each of them.
 */
export function readJournal(resultsFolder: string, settings: SummarySettings): Journal {
  const file = path.join(resultsFolder, JOURNAL_FILE);
  const journal = parseJournal(readJournalText(file), file);
  const names = new Set([...Object.keys(journal.settings), ...Object.keys(settings)]);
  const differences = [...names].flatMap((name) => {
    const [had, has] = [JSON.stringify(journal.settings[name]), JSON.stringify(settings[name])];
    return had === has || MAY_DIFFER.has(name) ? [] : [`  ${name}: it had ${had ?? "none"}, now ${has ?? "none"}`];
  });
  if (differences.length > 0) {
    throw new BenchError(
      "usage",
      `--resume: expected the settings of the run that is continued, got others\n${differences.join("\n")}\n` +
        `  it was: ${journal.settings.command ?? "unknown"}`,
    );
  }
  return journal;
}

function readJournalText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const problem = `expected a run to continue, got no ${file}: ${messageOf(cause)}`;
    throw new BenchError("usage", `--resume: ${problem}`, { cause });
  }
}

/** Checks only as much as tells a journal from what is none: the bench alone writes it, whole. */
function parseJournal(text: string, file: string): Journal {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw damaged(file, messageOf(cause), cause);
  }
  if (!isRecord(value)) throw damaged(file, `expected an object, got ${text.slice(0, 40).trim()}`);
  const { journalVersion, settings, findings, resumedAt } = value as Partial<Journal>;
  if (journalVersion !== 1) {
    throw new BenchError("usage", `--resume: expected ${file} of version 1, got ${String(journalVersion)}`);
  }
  if (!isRecord(settings)) throw damaged(file, `settings: expected an object, got ${typeof settings}`);
  if (!isRecord(findings)) throw damaged(file, `findings: expected an object, got ${typeof findings}`);
  const { points, parity, warnings } = findings as Partial<FindingsState>;
  for (const [name, list] of Object.entries({ resumedAt, points, parity, warnings })) {
    if (!Array.isArray(list)) throw damaged(file, `${name}: expected a list, got ${typeof list}`);
  }
  return value as unknown as Journal;
}

function damaged(file: string, problem: string, cause?: unknown): BenchError {
  return new BenchError("usage", `--resume: ${file} is damaged: ${problem}; without --resume a new run begins`, {
    cause,
  });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
