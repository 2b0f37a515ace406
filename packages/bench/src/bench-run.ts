import type { Arm } from "@dlrm/arm-contract";
import type { SummaryEnvironment } from "@dlrm/reporter";
import { ArmRunner } from "./arm-runner.ts";
import type { BenchDependencies } from "./bench-dependencies.ts";
import { BenchError } from "./bench-error.ts";
import { compareDevices } from "./dense-network-step.ts";
import { giveUpArm } from "./give-up-arm.ts";
import { type BenchModel, prepareModel } from "./model-step.ts";
import { onceMore } from "./once-more.ts";
import { describeDifference, whatIsWrong } from "./parity-check.ts";
import { checkParity } from "./parity-step.ts";
import { planForMachine } from "./plan-for-machine.ts";
import { describeStep, type LoadStep, type ParityStep, remainingSteps, type Step } from "./plan.ts";
import { measurePoint } from "./point-step.ts";
import { prepareArm } from "./prepare-arm.ts";
import { ProcessGuard } from "./process-guard.ts";
import type { RunContext } from "./run-context.ts";
import { RunRecord } from "./run-record.ts";
import { type BenchOutcome, reportRun } from "./run-report.ts";
import type { BenchSettings } from "./settings.ts";
import { formatSeconds, TimeLeft } from "./time-left.ts";

/** One run: `all` once, then `close`, then `report`. */
export class BenchRun {
  readonly #context: RunContext;
  #model: BenchModel | undefined;
  #finished = false;

  /** @param found the machine as it is now. */
  constructor(settings: BenchSettings, dependencies: BenchDependencies, found: SummaryEnvironment) {
    const arms = settings.arms.map((name) => armNamed(dependencies.arms, name));
    const record = new RunRecord(settings, dependencies, arms, found);
    const guard = new ProcessGuard();
    const { results, findings } = record;
    const { machine, progress, signal, drainMs, leaveServerCpus } = dependencies;
    const servers = new ArmRunner({
      ...{ settings, machine, guard, results, findings },
      ...{ progress, signal, drainMs, leaveServerCpus },
    });
    this.#context = { settings, dependencies, arms, record, servers, guard };
  }

  /** Does the plan until its end, or until the run is stopped; an arm that fails is given up. */
  async all(): Promise<void> {
    const { settings, arms, record } = this.#context;
    const { progress, signal } = this.#context.dependencies;
    const planned = planForMachine(settings, arms);
    const steps = remainingSteps(planned, (step) => record.findings.isMeasured(step));
    const left = steps.filter(({ kind }) => kind === "load").length;
    if (settings.resume) {
      const all = planned.filter(({ kind }) => kind === "load").length;
      progress.note(`continued: ${all - left} of ${all} measurements are there, ${left} are left`);
    }
    const timeLeft = new TimeLeft(steps);
    const skips = (step: Step): boolean => "arm" in step && record.findings.gaveUp(step.arm);
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
        // A run that has come to nothing is not reported, nor is there anything to go on from.
        const dropped = step.kind === "model" && record.drop();
        if (signal.aborted && dropped) throw BenchError.from(signal.reason, "interrupted");
        if (signal.aborted) return;
        if (error instanceof BenchError && error.code === "results_failed") throw error;
        if (!("arm" in step)) throw BenchError.from(error, "prepare_failed");
        await giveUpArm(this.#context, step.arm, describeStep(step), error);
        continue;
      }
      timeLeft.done(step, (performance.now() - started) / 1000);
    }
    this.#finished = true;
  }

  async #do(step: Exclude<Step, { kind: "report" }>): Promise<void> {
    const { settings, dependencies, arms, servers } = this.#context;
    switch (step.kind) {
      case "model":
        this.#model = await prepareModel(settings, dependencies);
        return;
      case "dense_network":
        return await compareDevices(this.#context);
      case "prepare":
        return await prepareArm(this.#context, armNamed(arms, step.arm));
      case "start":
        return await servers.start(armNamed(arms, step.arm), step.repeat);
      case "parity":
        return await onceMore(this.#context, step, "checked", () => this.#checkParity(step));
      case "load":
        return await this.#load(step);
      case "stop":
        await servers.stop();
    }
  }

  async #checkParity({ bReq }: ParityStep): Promise<void> {
    const { dependencies, record, servers } = this.#context;
    const { arm, started } = servers.current();
    const { parity } = present(this.#model);
    const outcome = await checkParity({ started, parity, bReq, signal: dependencies.signal });
    record.findings.addParity(arm.name, bReq, outcome);
    if (outcome.ok) return;
    throw new BenchError("parity_failed", `${describeDifference(outcome)} at B_req ${bReq}: ${whatIsWrong(outcome)}`);
  }

  async #load(step: LoadStep): Promise<void> {
    const { spec } = present(this.#model);
    await onceMore(this.#context, step, "measured", () => measurePoint(this.#context, spec, step));
    this.#context.record.writeJournal();
  }

  /** Ends the server that runs, if one does, and all that is left of others, and closes the model's files. */
  async close(): Promise<void> {
    try {
      await this.#context.servers.stop();
    } finally {
      this.#context.guard.close();
      await this.#model?.reference.close();
    }
  }

  async report(): Promise<BenchOutcome> {
    return await reportRun(this.#context, this.#finished);
  }
}

function armNamed(arms: readonly Arm[], name: string): Arm {
  const arm = arms.find((candidate) => candidate.name === name);
  if (arm === undefined) throw new BenchError("usage", `unknown arm ${JSON.stringify(name)}`);
  return arm;
}

function present(model: BenchModel | undefined): BenchModel {
  if (model === undefined) throw new BenchError("arm_failed", "there is no model");
  return model;
}
