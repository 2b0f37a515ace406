import type { Arm } from "@dlrm/arm-contract";
import {
  type ArmOutcome,
  bestPoint,
  compareWithinBudgets,
  competingFamilies,
  type ParityEntry,
  type Point,
  type PointKey,
  pointOf,
  type PointRepeat,
  type Summary,
  type SummaryEnvironment,
  type SummarySettings,
} from "@dlrm/reporter";
import type { DenseNetworkOutcome } from "./dense-network-task.ts";
import type { ParityOutcome } from "./parity.ts";
import type { KeptStep } from "./plan.ts";

/** All that was measured, for a run that is continued. What becomes of the arms is found anew. */
export interface FindingsState {
  readonly points: readonly { readonly key: PointKey; readonly repeats: readonly PointRepeat[] }[];
  readonly parity: readonly ParityEntry[];
  readonly warnings: readonly { readonly arm: string; readonly warnings: readonly string[] }[];
  /** Arms that failed, and why: they are tried again, and the report tells of it. */
  readonly failed?: readonly { readonly arm: string; readonly reason: string }[];
  /** Of the run as a whole. */
  readonly runWarnings?: readonly string[];
  /** Absent until devices were compared. */
  readonly denseNetwork?: DenseNetworkOutcome;
}

/** What a run has found so far; a summary can be made of it at any time. */
export class Findings {
  readonly #arms: readonly Arm[];
  readonly #outcomes: Map<string, Pick<ArmOutcome, "status" | "reason" | "logTail">> = new Map();
  readonly #warnings: Map<string, Set<string>> = new Map();
  readonly #runWarnings: Set<string> = new Set();
  readonly #parity: Map<string, ParityEntry> = new Map();
  #denseNetwork: DenseNetworkOutcome = { rows: [], warnings: [] };
  readonly #points: Map<string, { key: PointKey; repeats: PointRepeat[] }> = new Map();

  /** @param arms those that were asked for, in that order. */
  constructor(arms: readonly Arm[]) {
    this.#arms = arms;
  }

  state(): FindingsState {
    return {
      points: [...this.#points.values()],
      parity: [...this.#parity.values()],
      warnings: [...this.#warnings].map(([arm, warnings]) => ({ arm, warnings: [...warnings] })),
      failed: [...this.#outcomes].flatMap(([arm, { status, reason }]) =>
        status === "failed" ? [{ arm, reason: reason ?? "for a reason that is not known" }] : [],
      ),
      runWarnings: [...this.#runWarnings],
      // Devices that could not be compared are compared again, like an arm that failed.
      ...(this.#denseNetwork.rows.length === 0 ? {} : { denseNetwork: this.#denseNetwork }),
    };
  }

  restore(state: FindingsState): void {
    for (const { key, repeats } of state.points) for (const repeat of repeats) this.addRepeat(key, repeat);
    // An arm that failed is tried again.
    for (const entry of state.parity) if (entry.ok) this.#parity.set(`${entry.arm} ${entry.bReq}`, entry);
    for (const { arm, warnings } of state.warnings) for (const warning of warnings) this.warn(arm, warning);
    for (const { arm, reason } of state.failed ?? []) this.warn(arm, `failed before the run was continued: ${reason}`);
    for (const warning of state.runWarnings ?? []) this.warnRun(warning);
    if (state.denseNetwork !== undefined) this.#denseNetwork = state.denseNetwork;
  }

  isMeasured(step: KeptStep): boolean {
    if (step.kind === "dense_network") return this.#denseNetwork.rows.length > 0;
    const { arm, bReq, load, repeat } = step;
    const concurrency = load.mode === "closed" ? load.concurrency : null;
    const peakFraction = load.mode === "open" ? { peakFraction: load.peakFraction } : {};
    const point = this.#points.get(pointId({ arm, bReq, mode: load.mode, concurrency, ...peakFraction }));
    return point?.repeats.some((measured) => measured.repeat === repeat) ?? false;
  }

  /** No rows are a comparison that failed; the warnings say why. */
  setDenseNetwork(outcome: DenseNetworkOutcome): void {
    this.#denseNetwork = outcome;
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

  warnRun(warning: string): void {
    this.#runWarnings.add(warning);
  }

  addParity(arm: string, bReq: number, outcome: ParityOutcome): void {
    const key = `${arm} ${bReq}`;
    const before = this.#parity.get(key);
    if (before?.ok === false) return;
    const maxAbsDiff = outcome.maxAbsDiff === null ? null : Math.max(outcome.maxAbsDiff, before?.maxAbsDiff ?? 0);
    const error = outcome.error === undefined ? {} : { error: outcome.error };
    this.#parity.set(key, { arm, bReq, maxAbsDiff, ok: outcome.ok, ...error });
  }

  addRepeat(key: PointKey, repeat: PointRepeat): void {
    const id = pointId(key);
    const point = this.#points.get(id) ?? { key, repeats: [] };
    point.repeats.push(repeat);
    this.#points.set(id, point);
  }

  /**
   * Requests a second to offer for a share of the arm's closed-loop peak; the rate that the first repeat was given is
   * that of all, so that they are measurements of one point. Undefined if there is no peak to take a share of.
   */
  offeredRps(arm: string, bReq: number, peakFraction: number): number | undefined {
    const before = this.#points.get(pointId({ arm, bReq, mode: "open", concurrency: null, peakFraction }));
    if (before !== undefined) return before.key.offeredRps ?? undefined;
    const points = this.points().filter((point) => point.arm === arm && point.bReq === bReq);
    const peak = bestPoint(points, null, { clientBound: true });
    if (peak === undefined || peak.examplesPerS === 0) return undefined;
    return Number(((peakFraction * peak.examplesPerS) / bReq).toPrecision(4));
  }

  /** In the order of arms, then request size, closed before open loop, and load. */
  points(): Point[] {
    const order = (arm: string): number => this.#arms.findIndex(({ name }) => name === arm);
    return [...this.#points.values()]
      .map(({ key, repeats }) => pointOf(key, repeats))
      .sort(
        (a, b) =>
          order(a.arm) - order(b.arm) ||
          a.bReq - b.bReq ||
          Number(a.mode === "open") - Number(b.mode === "open") ||
          (a.concurrency ?? 0) - (b.concurrency ?? 0) ||
          (a.offeredRps ?? 0) - (b.offeredRps ?? 0),
      );
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
    const points = this.points();
    const parity = [...this.#parity.values()].sort((a, b) => order(a.arm) - order(b.arm) || a.bReq - b.bReq);
    const { rows } = this.#denseNetwork;
    const warnings = [...this.#runWarnings, ...this.#denseNetwork.warnings];
    const arms = this.outcomes(run.finished);
    return {
      schemaVersion: 1,
      platform: run.platform,
      preset: run.preset,
      simulatedAccelerator: run.simulatedAccelerator,
      environment: run.environment,
      settings: run.settings,
      parity,
      points,
      budgets: compareWithinBudgets(points, competingFamilies({ arms, parity })),
      arms,
      ...(run.finished ? {} : { interrupted: true }),
      ...(rows.length === 0 ? {} : { denseNetwork: rows }),
      ...(warnings.length === 0 ? {} : { warnings }),
    };
  }
}

function pointId(key: Omit<PointKey, "offeredRps">): string {
  return [key.arm, key.bReq, key.mode, key.concurrency ?? key.peakFraction].join(" ");
}

const unfinished = {
  status: "unfinished",
  reason: "The run was stopped before the plan of this arm was done.",
} as const;
