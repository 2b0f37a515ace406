import type { Arm } from "@dlrm/arm-contract";
import {
  type ArmOutcome,
  compareWithinBudgets,
  type ParityEntry,
  type Point,
  pointOf,
  type PointRepeat,
  type Summary,
  type SummaryEnvironment,
  type SummarySettings,
} from "@dlrm/reporter";
import type { ParityOutcome } from "./parity.ts";
import type { LoadStep } from "./plan.ts";

/** What a run has found so far; a summary can be made of it at any time. */
export class Findings {
  readonly #arms: readonly Arm[];
  readonly #outcomes: Map<string, Pick<ArmOutcome, "status" | "reason" | "logTail">> = new Map();
  readonly #warnings: Map<string, Set<string>> = new Map();
  readonly #parity: Map<string, ParityEntry> = new Map();
  readonly #points: Map<string, { step: LoadStep; repeats: PointRepeat[] }> = new Map();

  /** @param arms those that were asked for, in that order. */
  constructor(arms: readonly Arm[]) {
    this.#arms = arms;
  }

  /** The arm is given up: nothing more of the plan is done with it. The first reason stays. */
  giveUp(arm: string, outcome: Pick<ArmOutcome, "status" | "reason" | "logTail">): void {
    if (!this.gaveUp(arm)) this.#outcomes.set(arm, outcome);
  }

  gaveUp(arm: string): boolean {
    return this.#outcomes.has(arm);
  }

  warn(arm: string, warning: string): void {
    const warnings = this.#warnings.get(arm) ?? new Set();
    this.#warnings.set(arm, warnings.add(warning));
  }

  addParity(arm: string, bReq: number, outcome: ParityOutcome): void {
    const key = `${arm} ${bReq}`;
    const before = this.#parity.get(key);
    if (before?.ok === false) return;
    const maxAbsDiff = outcome.maxAbsDiff === null ? null : Math.max(outcome.maxAbsDiff, before?.maxAbsDiff ?? 0);
    const error = "error" in outcome ? { error: outcome.error } : {};
    this.#parity.set(key, { arm, bReq, maxAbsDiff, ok: outcome.ok, ...error });
  }

  addRepeat(step: LoadStep, repeat: PointRepeat): void {
    const key = `${step.arm} ${step.bReq} ${step.concurrency}`;
    const point = this.#points.get(key) ?? { step, repeats: [] };
    point.repeats.push(repeat);
    this.#points.set(key, point);
  }

  /** @param finished whether the whole plan was done. */
  outcomes(finished: boolean): ArmOutcome[] {
    return this.#arms.map(({ name, title, family }) => {
      const outcome = this.#outcomes.get(name) ?? (finished ? { status: "ok" as const } : unfinished);
      const warnings = [...(this.#warnings.get(name) ?? [])];
      return { arm: name, title, family, ...outcome, ...(warnings.length === 0 ? {} : { warnings }) };
    });
  }

  summary(
    run: Pick<Summary, "platform" | "preset" | "simulatedAccelerator"> & {
      readonly environment: SummaryEnvironment;
      readonly settings: SummarySettings;
      readonly finished: boolean;
    },
  ): Summary {
    const order = (arm: string): number => this.#arms.findIndex(({ name }) => name === arm);
    const points: Point[] = [...this.#points.values()]
      .map(({ step, repeats }) =>
        pointOf(
          { arm: step.arm, bReq: step.bReq, mode: "closed", concurrency: step.concurrency, offeredRps: null },
          repeats,
        ),
      )
      .sort((a, b) => order(a.arm) - order(b.arm) || a.bReq - b.bReq || (a.concurrency ?? 0) - (b.concurrency ?? 0));
    const parity = [...this.#parity.values()].sort((a, b) => order(a.arm) - order(b.arm) || a.bReq - b.bReq);
    const families = new Map(this.#arms.map(({ name, family }) => [name, family]));
    return {
      schemaVersion: 1,
      platform: run.platform,
      preset: run.preset,
      simulatedAccelerator: run.simulatedAccelerator,
      environment: run.environment,
      settings: run.settings,
      parity,
      points,
      budgets: compareWithinBudgets(points, families),
      arms: this.outcomes(run.finished),
      ...(run.finished ? {} : { interrupted: true }),
    };
  }
}

const unfinished = {
  status: "unfinished",
  reason: "The run was stopped before the plan of this arm was done.",
} as const;
