import type { BenchSettings } from "./settings.ts";

/** Closed loop with this many callers, or Poisson arrivals at a share of the arm's own closed-loop peak. */
export type PlannedLoad =
  | { readonly mode: "closed"; readonly concurrency: number }
  | { readonly mode: "open"; readonly peakFraction: number };

/** Load of one point. */
export interface LoadStep {
  readonly kind: "load";
  readonly arm: string;
  readonly repeat: number;
  readonly bReq: number;
  readonly load: PlannedLoad;
  readonly estimateS: number;
}

/** Scores at one request size beside the reference's. */
export interface ParityStep {
  readonly kind: "parity";
  readonly arm: string;
  readonly repeat: number;
  readonly bReq: number;
  readonly estimateS: number;
}

/** The dense network alone, on each device that runs it on this CPU. */
export interface DenseNetworkStep {
  readonly kind: "dense_network";
  readonly estimateS: number;
}

/** A step whose outcome is kept, so that a run that is continued need not do it again. */
export type KeptStep = LoadStep | DenseNetworkStep;

/** Rates of the open loop. */
export const PEAK_FRACTIONS: readonly number[] = [0.5, 0.8];

export type Step =
  | { readonly kind: "model"; readonly estimateS: number }
  | DenseNetworkStep
  | { readonly kind: "prepare"; readonly arm: string; readonly estimateS: number }
  | { readonly kind: "start"; readonly arm: string; readonly repeat: number; readonly estimateS: number }
  | ParityStep
  | LoadStep
  | { readonly kind: "stop"; readonly arm: string; readonly repeat: number; readonly estimateS: number }
  | { readonly kind: "report"; readonly estimateS: number };

/** What durations are estimated from. */
export interface PlanFacts {
  readonly bundleExists: boolean;
  /** Bytes of all tables of the model. */
  readonly tableBytes: number;
  /** Whether the arms' caches hold something already. */
  readonly cacheExists: boolean;
  readonly families: ReadonlyMap<string, "engine" | "python" | "node">;
}

const EXPORT_BYTES_PER_S = 150e6;
const READ_BYTES_PER_S = 1e9;
/** Of the full network: until every device is open and the reference has its scores, and a turn of each. */
const DEVICES_OPEN_S = 6;
const DEVICES_ROUND_S = 1;

/**
 * The steps of a run in order. Arms alternate within each repeat, in turned order in every second one, so that a slow
 * change of the machine falls on all alike. Devices are compared before, while nothing else runs. An arm that starts is
 * checked for parity at every request size before load; its open-loop points come after its closed-loop sweep, which
 * their rates are taken from.
 */
export function planRun(settings: BenchSettings, facts: PlanFacts): Step[] {
  const steps: Step[] = [
    { kind: "model", estimateS: facts.bundleExists ? 0.5 : 5 + facts.tableBytes / EXPORT_BYTES_PER_S },
  ];
  if (settings.platform === "cpu") {
    steps.push({ kind: "dense_network", estimateS: DEVICES_OPEN_S + settings.repeats * DEVICES_ROUND_S });
  }
  for (const arm of settings.arms) {
    const slow = facts.families.get(arm) === "python" && !facts.cacheExists;
    steps.push({ kind: "prepare", arm, estimateS: slow ? 90 : 1 });
  }
  for (let repeat = 1; repeat <= settings.repeats; repeat++) {
    const order = repeat % 2 === 1 ? settings.arms : [...settings.arms].reverse();
    for (const arm of order) steps.push(...planArm(settings, facts, arm, repeat));
  }
  steps.push({ kind: "report", estimateS: 0.5 });
  return steps;
}

/**
 * What is left of a plan when some of it was measured before: loads and the comparison of devices are left out, and so are
 * the start, parity and stop of a repeat with no load left, and the preparation of an arm with nothing left.
 */
export function remainingSteps(steps: readonly Step[], isMeasured: (step: KeptStep) => boolean): Step[] {
  const left = steps.filter((step) => (step.kind !== "load" && step.kind !== "dense_network") || !isMeasured(step));
  const loads = left.filter((step) => step.kind === "load");
  return left.filter((step) => {
    switch (step.kind) {
      case "model":
        return loads.length > 0 || left.some(({ kind }) => kind === "dense_network");
      case "prepare":
        return loads.some(({ arm }) => arm === step.arm);
      case "start":
      case "parity":
      case "stop":
        return loads.some(({ arm, repeat }) => arm === step.arm && repeat === step.repeat);
      case "dense_network":
      case "load":
      case "report":
        return true;
    }
  });
}

function planArm(settings: BenchSettings, facts: PlanFacts, arm: string, repeat: number): Step[] {
  const startS = facts.families.get(arm) === "python" ? 10 : 2;
  const steps: Step[] = [{ kind: "start", arm, repeat, estimateS: startS + facts.tableBytes / READ_BYTES_PER_S }];
  for (const bReq of settings.requestBatchSizes) {
    // The first arm to come waits for the reference, which runs in plain TypeScript.
    const first = repeat === 1 && arm === settings.arms[0];
    steps.push({ kind: "parity", arm, repeat, bReq, estimateS: 0.2 + (first ? bReq * 0.03 : 0) });
  }
  const closed = settings.concurrencies.map((concurrency) => ({ mode: "closed" as const, concurrency }));
  const open = PEAK_FRACTIONS.map((peakFraction) => ({ mode: "open" as const, peakFraction }));
  for (const loads of settings.openLoop ? [closed, open] : [closed]) {
    for (const bReq of settings.requestBatchSizes) {
      for (const load of loads) {
        const estimateS = settings.warmupS + settings.durationS + 1;
        steps.push({ kind: "load", arm, repeat, bReq, load, estimateS });
      }
    }
  }
  steps.push({ kind: "stop", arm, repeat, estimateS: 0.5 });
  return steps;
}

/** Steps of the same kind and arm take about as long. */
export function stepClass(step: Step): string {
  return "arm" in step ? `${step.kind} ${step.arm}` : step.kind;
}

/** `C 16`, or `open loop at 80 % of the peak`. */
export function describeLoad(load: PlannedLoad): string {
  return load.mode === "closed"
    ? `C ${load.concurrency}`
    : `open loop at ${Math.round(load.peakFraction * 100)} % of the peak`;
}

/** Name of the files of a point: `closed-b16-c8`, or `open-b16-p80`. */
export function pointName({ bReq, load }: Pick<LoadStep, "bReq" | "load">): string {
  return load.mode === "closed"
    ? `closed-b${bReq}-c${load.concurrency}`
    : `open-b${bReq}-p${Math.round(load.peakFraction * 100)}`;
}

export function describeStep(step: Step): string {
  switch (step.kind) {
    case "model":
      return "model";
    case "dense_network":
      return "dense network on this CPU";
    case "prepare":
      return `${step.arm}: prepare`;
    case "start":
      return `${step.arm}, repeat ${step.repeat}: start`;
    case "parity":
      return `${step.arm}, repeat ${step.repeat}: parity, B_req ${step.bReq}`;
    case "load":
      return `${step.arm}, repeat ${step.repeat}: load, B_req ${step.bReq}, ${describeLoad(step.load)}`;
    case "stop":
      return `${step.arm}, repeat ${step.repeat}: stop`;
    case "report":
      return "report";
  }
}
