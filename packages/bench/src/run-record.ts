import type { Arm } from "@dlrm/arm-contract";
import type { SummaryEnvironment } from "@dlrm/reporter";
import type { BenchDependencies } from "./bench-dependencies.ts";
import { addTicks, type CpuTicks, NO_TICKS, readCpuTicks } from "./cpu-ticks.ts";
import { loadAverage } from "./environment.ts";
import { Findings } from "./findings.ts";
import { type Journal, JOURNAL_FILE, readJournal } from "./journal.ts";
import { machineChanges } from "./machine-changes.ts";
import { plain } from "./plain.ts";
import { ResultsDir } from "./results-dir.ts";
import { describeSettings, pinningProblem } from "./run-description.ts";
import type { BenchSettings } from "./settings.ts";

/** When and on what a run began, be it in a session before this one. */
export interface RunBeginning extends Pick<Journal, "startedAt" | "resumedAt" | "loadAverageBefore"> {
  readonly machine: SummaryEnvironment;
}

/** All that a run keeps: its folder of results, what was found, and the journal that `--resume` goes on from. */
export class RunRecord {
  readonly results: ResultsDir;
  readonly findings: Findings;
  readonly beginning: RunBeginning;
  /** The machine as this session found it. */
  readonly found: SummaryEnvironment;
  readonly #settings: BenchSettings;
  readonly #with: Pick<BenchDependencies, "machine" | "progress">;
  /** Where the results of an earlier run are now. */
  readonly #movedTo: string | undefined;
  readonly #ticks: { readonly earlier: CpuTicks; readonly before: CpuTicks | undefined };

  /**
   * Opens the results of the run that is continued with `--resume`, else an empty folder.
   *
   * @throws BenchError `usage` if there is no run to continue, or one with other settings.
   */
  constructor(
    settings: BenchSettings,
    dependencies: Pick<BenchDependencies, "machine" | "progress">,
    arms: readonly Arm[],
    found: SummaryEnvironment,
  ) {
    this.#settings = settings;
    this.#with = dependencies;
    this.found = found;
    this.findings = new Findings(arms);
    if (settings.resume) {
      this.results = ResultsDir.reopen(settings.workDir);
      const journal = readJournal(this.results.dir, plain(describeSettings(settings)));
      this.findings.restore(journal.findings);
      const now = new Date().toISOString();
      const { startedAt, loadAverageBefore, machine = {}, ticks = NO_TICKS } = journal;
      this.beginning = { startedAt, resumedAt: [...journal.resumedAt, now], loadAverageBefore, machine };
      this.#ticks = { earlier: ticks, before: readCpuTicks(this.#cpus()) };
      const changes = machineChanges(machine, found).map((change) => `; ${change}`);
      this.warn(`the run was continued at ${now}, when the load average was ${loadAverage()}${changes.join("")}`);
    } else {
      const { results, movedTo } = ResultsDir.open(settings.workDir);
      this.results = results;
      const startedAt = new Date().toISOString();
      this.beginning = { startedAt, resumedAt: [], loadAverageBefore: loadAverage(), machine: found };
      this.#ticks = { earlier: NO_TICKS, before: readCpuTicks(this.#cpus()) };
      this.#movedTo = movedTo;
      if (movedTo !== undefined) dependencies.progress.note(`earlier results moved to ${movedTo}`);
    }
    const problem = pinningProblem(settings, dependencies.machine);
    if (problem !== undefined) this.warn(problem);
    this.writeJournal();
  }

  /**
   * Ends the record of a run that comes to nothing: results of an earlier one get their place again.
   *
   * @returns false for a run that was continued, whose record stays.
   */
  drop(): boolean {
    if (this.#settings.resume) return false;
    this.results.giveWayTo(this.#movedTo);
    if (this.#movedTo !== undefined) this.#with.progress.note(`earlier results moved back to ${this.results.dir}`);
    return true;
  }

  /** Of the run as a whole: the report has it, and it is shown. */
  warn(warning: string): void {
    this.findings.warnRun(warning);
    this.#with.progress.note(warning);
  }

  /** @throws BenchError `results_failed`. */
  writeJournal(): void {
    const journal: Journal = {
      journalVersion: 1,
      ...this.beginning,
      ticks: this.ticksUntilNow(),
      settings: describeSettings(this.#settings),
      findings: this.findings.state(),
    };
    this.results.writeJson(journal, JOURNAL_FILE);
  }

  /** Of all sessions. */
  ticksUntilNow(): CpuTicks {
    return addTicks(this.#ticks.earlier, this.#ticks.before, readCpuTicks(this.#cpus()));
  }

  /** Those that server and client run on. */
  #cpus(): readonly number[] {
    const { serverCpus, clientCpus } = this.#settings;
    const { taskset, cpus } = this.#with.machine;
    return taskset === undefined ? cpus : [...new Set([...serverCpus, ...clientCpus])];
  }
}
