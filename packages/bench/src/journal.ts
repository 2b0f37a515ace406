import { readFileSync } from "node:fs";
import path from "node:path";
import type { SummarySettings } from "@dlrm/reporter";
import { BenchError, messageOf } from "./bench-error.ts";
import type { FindingsState } from "./findings.ts";

/** `run.json` of a run: what `--resume` continues from. Written anew after every point. */
export interface Journal {
  readonly journalVersion: 1;
  readonly startedAt: string;
  /** When the run was continued, if it was. */
  readonly resumedAt: readonly string[];
  readonly loadAverageBefore: number;
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
  let journal: Journal;
  try {
    journal = JSON.parse(readFileSync(file, "utf8")) as Journal;
  } catch (cause) {
    throw new BenchError("usage", `--resume: expected a run to continue, got no ${file}: ${messageOf(cause)}`, {
      cause,
    });
  }
  if (journal.journalVersion !== 1) {
    throw new BenchError("usage", `--resume: expected ${file} of version 1, got ${String(journal.journalVersion)}`);
  }
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
