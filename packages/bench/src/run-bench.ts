import type { Arm } from "@dlrm/arm-contract";
import type { Bundle } from "@dlrm/model";
import { type PointKey, type Summary, type SummaryEnvironment, validateSummary } from "@dlrm/reporter";
import { ArmRunner } from "./arm-runner.ts";
import { BenchError, messageOf } from "./bench-error.ts";
import { bundleDir, cacheDir, serverCommand } from "./commands.ts";
import { addTicks, type CpuTicks, NO_TICKS, readCpuTicks, stealFraction } from "./cpu-ticks.ts";
import type { MeasureDenseNetwork } from "./dense-network-process.ts";
import { denseNetworkTask } from "./dense-network-task.ts";
import { loadAverage } from "./environment.ts";
import { Findings } from "./findings.ts";
import { type Journal, JOURNAL_FILE, readJournal } from "./journal.ts";
import { loadPoint } from "./load-point.ts";
import type { Machine } from "./machine.ts";
import { machineChanges } from "./machine-changes.ts";
import type { Measure } from "./measure.ts";
import { repeatOf } from "./point-repeat.ts";
import { describeDifference, ParityCheck, type Reference, whatIsWrong } from "./parity-check.ts";
import { checkParity } from "./parity-step.ts";
import { planForMachine } from "./plan-for-machine.ts";
import {
  describeLoad,
  describeStep,
  type LoadStep,
  type ParityStep,
  pointName,
  remainingSteps,
  type Step,
} from "./plan.ts";
import { ProcessGuard } from "./process-guard.ts";
import type { Progress } from "./progress.ts";
import { ResultsDir } from "./results-dir.ts";
import { describePinning, describeSettings, pinningProblem } from "./run-description.ts";
import { describeExit } from "./server-process.ts";
import type { BenchSettings } from "./settings.ts";
import { formatSeconds, TimeLeft } from "./time-left.ts";
import { takeWorkDir } from "./work-dir.ts";
import { writeReport } from "./write-report.ts";

/** What a run works with; the command passes the real things, tests doubles of some. */
export interface BenchDependencies {
  /** Every known arm. */
  readonly arms: readonly Arm[];
  readonly machine: Machine;
  readonly progress: Progress;
  /** Stops the run; what was found until then is reported. */
  readonly signal: AbortSignal;
  readonly measure: Measure;
  /** Compares the devices that run the dense network on this CPU; its failure is no failure of the run. */
  readonly measureDenseNetwork: MeasureDenseNetwork;
  /** Makes the bundle at `bundleDir(settings)` if it isn't there. */
  readonly prepareBundle: (settings: BenchSettings, progress: Progress, signal: AbortSignal) => Promise<Bundle>;
  readonly openReference: (bundle: Bundle) => Promise<Reference>;
  /** The machine and the code that runs on it, before anything is measured. */
  readonly describeMachine: () => Promise<SummaryEnvironment>;
  /** The same at the end, and versions of what arms use; `python` is the interpreter of a Python arm, if one was prepared. */
  readonly describeEnvironment: (python: string | undefined) => Promise<SummaryEnvironment>;
  /** Moves the bench itself off the servers' CPUs; called before the first server starts. Returns why it could not, if so. */
  readonly leaveServerCpus: (settings: BenchSettings) => string | undefined;
  /** Milliseconds that a server may take to end after SIGTERM. */
  readonly drainMs: number;
}

export interface BenchOutcome {
  readonly summary: Summary;
  readonly reportFile: string;
  /** 0 if every arm was measured; 1 if one failed, or was named and cannot run here; 130 if the run was stopped. */
  readonly exitCode: number;
}

/**
 * Runs the whole plan and writes the results. An arm that fails is given up, the others go on.
 *
 * @throws BenchError `usage` if another run has the work_dir, or it cannot be written; `prepare_failed` if there is no model to
 *   serve; errors of the file system where results go.
 */
export async function runBench(settings: BenchSettings, dependencies: BenchDependencies): Promise<BenchOutcome> {
  const giveBack = takeWorkDir(settings.workDir);
  try {
    const run = new Run(settings, dependencies, await dependencies.describeMachine());
    try {
      await run.all();
    } finally {
      await run.stopArm();
      run.close();
    }
    return await run.report();
  } finally {
    giveBack();
  }
}

/** One run: `all` once, then `report`. */
class Run {
  readonly #settings: BenchSettings;
  readonly #with: BenchDependencies;
  readonly #arms: readonly Arm[];
  readonly #findings: Findings;
  readonly #guard: ProcessGuard = new ProcessGuard();
  readonly #servers: ArmRunner;
  readonly #results: ResultsDir;
  /** Of the first session, whenever this one began. */
  readonly #before: Pick<Journal, "startedAt" | "resumedAt" | "loadAverageBefore"> & {
    readonly machine: SummaryEnvironment;
  };
  /** As this session found it. */
  readonly #found: SummaryEnvironment;
  readonly #ticks: { readonly earlier: CpuTicks; readonly before: CpuTicks | undefined };
  #parity: ParityCheck | undefined;
  #bundle: Bundle | undefined;
  #reference: Reference | undefined;
  #finished = false;

  constructor(settings: BenchSettings, dependencies: BenchDependencies, found: SummaryEnvironment) {
    this.#settings = settings;
    this.#with = dependencies;
    this.#found = found;
    this.#arms = settings.arms.map((name) => {
      const arm = dependencies.arms.find((candidate) => candidate.name === name);
      if (arm === undefined) throw new BenchError("usage", `unknown arm ${JSON.stringify(name)}`);
      return arm;
    });
    this.#findings = new Findings(this.#arms);
    if (settings.resume) {
      this.#results = ResultsDir.reopen(settings.workDir);
      const journal = readJournal(this.#results.dir, plain(describeSettings(settings)));
      this.#findings.restore(journal.findings);
      const now = new Date().toISOString();
      const { startedAt, loadAverageBefore, machine = {}, ticks = NO_TICKS } = journal;
      this.#before = { startedAt, resumedAt: [...journal.resumedAt, now], loadAverageBefore, machine };
      this.#ticks = { earlier: ticks, before: readCpuTicks(this.#cpus()) };
      const changes = machineChanges(machine, found).map((change) => `; ${change}`);
      this.#warn(`the run was continued at ${now}, when the load average was ${loadAverage()}${changes.join("")}`);
    } else {
      const { results, movedTo } = ResultsDir.open(settings.workDir);
      this.#results = results;
      const startedAt = new Date().toISOString();
      this.#before = { startedAt, resumedAt: [], loadAverageBefore: loadAverage(), machine: found };
      this.#ticks = { earlier: NO_TICKS, before: readCpuTicks(this.#cpus()) };
      if (movedTo !== undefined) dependencies.progress.note(`earlier results moved to ${movedTo}`);
    }
    const { machine, progress, signal, drainMs, leaveServerCpus } = dependencies;
    this.#servers = new ArmRunner({
      settings,
      machine,
      guard: this.#guard,
      results: this.#results,
      findings: this.#findings,
      progress,
      signal,
      drainMs,
      leaveServerCpus,
    });
    const problem = pinningProblem(settings, machine);
    if (problem !== undefined) this.#warn(problem);
    this.#writeJournal();
  }

  async all(): Promise<void> {
    const { progress, signal } = this.#with;
    const planned = planForMachine(this.#settings, this.#arms);
    const steps = remainingSteps(planned, (step) => this.#findings.isMeasured(step));
    const left = steps.filter(({ kind }) => kind === "load").length;
    if (this.#settings.resume) {
      const all = planned.filter(({ kind }) => kind === "load").length;
      progress.note(`continued: ${all - left} of ${all} measurements are there, ${left} are left`);
    }
    const timeLeft = new TimeLeft(steps);
    const skips = (step: Step): boolean => "arm" in step && this.#findings.gaveUp(step.arm);
    progress.note(`${steps.length} steps, about ${formatSeconds(timeLeft.from(0))}`);
    for (const [index, step] of steps.entries()) {
      if (skips(step)) continue;
      if (signal.aborted) return;
      progress.step(index, steps.length, describeStep(step), timeLeft.from(index, skips));
      if (step.kind === "report") break;
      const started = performance.now();
      try {
        await this.#do(step);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof BenchError && error.code === "results_failed") throw error;
        if (!("arm" in step)) throw BenchError.from(error, "prepare_failed");
        await this.#failed(step.arm, describeStep(step), error);
        continue;
      }
      timeLeft.done(step, (performance.now() - started) / 1000);
    }
    this.#finished = true;
  }

  async #do(step: Exclude<Step, { kind: "report" }>): Promise<void> {
    switch (step.kind) {
      case "model":
        return await this.#prepareModel();
      case "dense_network":
        return await this.#compareDevices();
      case "prepare":
        return await this.#prepareArm(this.#arm(step.arm));
      case "start":
        return await this.#servers.start(this.#arm(step.arm), step.repeat);
      case "parity":
        return await this.#checkParity(step);
      case "load":
        return await this.#load(step);
      case "stop":
        await this.stopArm();
    }
  }

  async #prepareModel(): Promise<void> {
    const { prepareBundle, openReference, progress, signal } = this.#with;
    this.#bundle = await prepareBundle(this.#settings, progress, signal);
    this.#reference = await openReference(this.#bundle);
    this.#parity = new ParityCheck({
      spec: this.#bundle.spec,
      reference: this.#reference,
      simulated: this.#settings.platform === "sim",
      seed: this.#settings.seed,
    });
  }

  async #compareDevices(): Promise<void> {
    const { measureDenseNetwork, machine, progress, signal } = this.#with;
    try {
      const outcome = await measureDenseNetwork({
        task: denseNetworkTask(bundleDir(this.#settings), this.#settings),
        cpus: this.#settings.serverCpus,
        taskset: machine.taskset,
        guard: this.#guard,
        logFile: this.#results.path("dense-network.log"),
        signal,
        onProgress: (doing) => progress.update(doing),
      });
      this.#findings.setDenseNetwork(outcome);
      for (const warning of outcome.warnings) progress.note(`  ${warning}`);
    } catch (error) {
      if (signal.aborted || (error instanceof BenchError && error.code === "results_failed")) throw error;
      const warning = `the dense network on this CPU was not measured: ${messageOf(error)}`;
      this.#findings.setDenseNetwork({ rows: [], warnings: [warning] });
      progress.note(`  ${warning}`);
    }
    this.#writeJournal();
  }

  async #prepareArm(arm: Arm): Promise<void> {
    const { platform, device } = this.#settings;
    const availability = await arm.availability(platform, device);
    if (!availability.available) {
      const reason = `This machine lacks what it needs: ${availability.missing}`;
      this.#with.progress.note(`${arm.name} is skipped. ${reason}`);
      this.#findings.giveUp(arm.name, { status: "skipped", reason });
      return;
    }
    await arm.prepare({
      platform,
      cacheDir: cacheDir(this.#settings),
      report: (line) => this.#with.progress.note(`  ${line}`),
      signal: this.#with.signal,
    });
  }

  async #checkParity(step: ParityStep): Promise<void> {
    await this.#onceMore(step, "checked", async () => {
      const { bReq } = step;
      const { arm, started } = this.#servers.current();
      const parity = present(this.#parity, "a reference");
      const outcome = await checkParity({ started, parity, bReq, signal: this.#with.signal });
      this.#findings.addParity(arm.name, bReq, outcome);
      if (outcome.ok) return;
      throw new BenchError("parity_failed", `${describeDifference(outcome)} at B_req ${bReq}: ${whatIsWrong(outcome)}`);
    });
  }

  async #load(step: LoadStep): Promise<void> {
    await this.#onceMore(step, "measured", () => this.#measurePoint(step));
    this.#writeJournal();
  }

  /**
   * Does what failed once more, with a new server if the old one ended; failing again is the arm's end. Scores that are wrong
   * are no failure of that kind.
   */
  async #onceMore(step: LoadStep | ParityStep, done: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const lasts = error instanceof BenchError && (error.code === "results_failed" || error.code === "parity_failed");
      if (this.#with.signal.aborted || lasts) throw error;
      const { arm, started } = this.#servers.current();
      const warning = `failed once and was ${done} again: ${describeStep(step)}: ${messageOf(error)}`;
      this.#findings.warn(arm.name, warning);
      this.#with.progress.note(`  ${warning}`);
      for (const line of started.server.logTail()) this.#with.progress.note(`  | ${line}`);
      if (started.server.ended !== undefined) {
        await this.#servers.stop();
        await this.#servers.start(arm, step.repeat);
      }
      await work();
    }
  }

  #writeJournal(): void {
    const journal: Journal = {
      journalVersion: 1,
      ...this.#before,
      ticks: this.#ticksUntilNow(),
      settings: describeSettings(this.#settings),
      findings: this.#findings.state(),
    };
    this.#results.writeJson(journal, JOURNAL_FILE);
  }

  #ticksUntilNow(): CpuTicks {
    return addTicks(this.#ticks.earlier, this.#ticks.before, readCpuTicks(this.#cpus()));
  }

  /** Those that server and client run on. */
  #cpus(): readonly number[] {
    const { serverCpus, clientCpus } = this.#settings;
    const { taskset, cpus } = this.#with.machine;
    return taskset === undefined ? cpus : [...new Set([...serverCpus, ...clientCpus])];
  }

  #warn(warning: string): void {
    this.#findings.warnRun(warning);
    this.#with.progress.note(warning);
  }

  async #measurePoint(step: LoadStep): Promise<void> {
    const { started } = this.#servers.current();
    const { arm } = step;
    const key = this.#pointKey(step);
    if (key === undefined) {
      const warning = `no ${describeLoad(step.load)} at B_req ${step.bReq}: no closed-loop point without errors to take the rate from`;
      this.#with.progress.note(`  ${warning}`);
      this.#findings.warn(arm, warning);
      return;
    }
    const startedAt = new Date().toISOString();
    const measurement = await loadPoint({
      key,
      step,
      started,
      settings: this.#settings,
      machine: this.#with.machine,
      spec: present(this.#bundle, "a model").spec,
      measure: this.#with.measure,
      guard: this.#guard,
      progress: this.#with.progress,
      logFile: this.#results.path(arm, `loadgen-r${step.repeat}.log`),
      signal: this.#with.signal,
    });
    const name = `${pointName(step)}-r${step.repeat}`;
    const { load, server, client, strays } = measurement;
    const head = { ...key, repeat: step.repeat };
    this.#results.writeJson({ ...head, startedAt, result: load }, arm, `${name}.json`);
    this.#results.writeJson({ ...head, server, client }, arm, `${name}.monitor.json`);
    if (strays[0] !== undefined) this.#findings.warn(arm, `the load generator was not pinned: ${strays[0]}`);
    this.#findings.addRepeat(key, repeatOf(step.repeat, measurement, key.mode));
  }

  /** Undefined for a share of a peak that was not measured. */
  #pointKey({ arm, bReq, load }: LoadStep): PointKey | undefined {
    if (load.mode === "closed") return { arm, bReq, mode: "closed", concurrency: load.concurrency, offeredRps: null };
    const { peakFraction } = load;
    const offeredRps = this.#findings.offeredRps(arm, bReq, peakFraction);
    return offeredRps === undefined
      ? undefined
      : { arm, bReq, mode: "open", concurrency: null, offeredRps, peakFraction };
  }

  async #failed(arm: string, doing: string, error: unknown): Promise<void> {
    const server = this.#servers.running?.started.server;
    const exit = (await this.#servers.stop())?.exit;
    const logTail = server?.logTail() ?? [];
    // Where the answer to a request told of the end before the process did.
    const crashed = exit?.kind === "code" && exit.code !== 0 && !messageOf(error).includes("the server ended");
    const reason = `${doing}: ${messageOf(error)}${crashed ? `; the server ended with ${describeExit(exit)}` : ""}`;
    this.#findings.giveUp(arm, { status: "failed", reason, logTail });
    this.#with.progress.note(`${arm} failed. ${reason}`);
    for (const line of logTail) this.#with.progress.note(`  | ${line}`);
    this.#writeJournal();
  }

  async stopArm(): Promise<void> {
    await this.#servers.stop();
  }

  close(): void {
    this.#guard.close();
  }

  async report(): Promise<BenchOutcome> {
    const { progress, signal } = this.#with;
    await this.#reference?.close();
    const settings = this.#settings;
    const environment = await this.#environment();
    const summary = validateSummary(
      plain(
        this.#findings.summary({
          platform: settings.platform,
          preset: settings.preset,
          simulatedAccelerator: settings.platform === "sim",
          environment,
          settings: describeSettings(settings),
          finished: this.#finished,
        }),
      ),
    );
    this.#writeJournal();
    const reportFile = writeReport(this.#results, summary);
    if (!this.#finished) progress.note("stopped before the plan was done: the same command with --resume goes on");
    progress.end();
    const bad = (summary.arms ?? []).some(
      ({ status }) => status === "failed" || (status === "skipped" && settings.armsNamed),
    );
    const exitCode = signal.aborted ? 130 : bad || summary.points.length === 0 ? 1 : 0;
    return { summary, reportFile, exitCode };
  }

  async #environment(): Promise<SummaryEnvironment> {
    const { machine } = this.#with;
    const steal = stealFraction(this.#ticksUntilNow());
    const { startedAt, resumedAt, loadAverageBefore, machine: atStart } = this.#before;
    return {
      startedAt,
      ...(resumedAt.length === 0 ? {} : { resumedAt }),
      finishedAt: new Date().toISOString(),
      ...(await this.#describeEnd()),
      // A commit that came meanwhile is not what was measured.
      ...atStart,
      taskset: machine.taskset ?? "not there",
      pinning: describePinning(this.#settings, machine),
      loadAverageBefore,
      loadAverageAfter: loadAverage(),
      ...(steal === undefined ? {} : { stealFraction: Math.round(steal * 1e4) / 1e4 }),
    };
  }

  async #describeEnd(): Promise<SummaryEnvironment> {
    try {
      const now = await this.#with.describeEnvironment(this.#python());
      const changes = machineChanges(this.#found, now);
      if (changes.length > 0) this.#warn(`changed while the run went on: ${changes.join("; ")}`);
      return now;
    } catch (error) {
      this.#warn(`the environment is not known in whole: ${messageOf(error)}`);
      return {};
    }
  }

  /** The interpreter of the first Python arm that was not given up. */
  #python(): string | undefined {
    const arm = this.#arms.find(({ name, family }) => family === "python" && !this.#findings.gaveUp(name));
    if (arm === undefined) return undefined;
    try {
      return serverCommand(this.#settings, { ...this.#with.machine, taskset: undefined }, arm, 0).file;
    } catch {
      // Stopped before it was looked for, where there is no Python.
      return undefined;
    }
  }

  #arm(name: string): Arm {
    return present(
      this.#arms.find((arm) => arm.name === name),
      `the arm ${name}`,
    );
  }
}

/** A value as a reader of its JSON will see it. */
function plain<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value)) as Value;
}

function present<Value>(value: Value | undefined, what: string): Value {
  if (value === undefined) throw new BenchError("arm_failed", `there is no ${what.replace(/^an? |^the /, "")}`);
  return value;
}
