import type { BenchSettings } from "./settings.ts";

/** Load of one point: closed loop with this many callers. */
export interface LoadStep {
  readonly kind: "load";
  readonly arm: string;
  readonly repeat: number;
  readonly bReq: number;
  readonly concurrency: number;
  readonly estimateS: number;
}

export type Step =
  | { readonly kind: "model"; readonly estimateS: number }
  | { readonly kind: "prepare"; readonly arm: string; readonly estimateS: number }
  | { readonly kind: "start"; readonly arm: string; readonly repeat: number; readonly estimateS: number }
  | {
      readonly kind: "parity";
      readonly arm: string;
      readonly repeat: number;
      readonly bReq: number;
      readonly estimateS: number;
    }
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

/**
 * The steps of a run in order. Arms alternate within each repeat, in turned order in every second one, so that a slow
 * change of the machine falls on all alike. An arm that starts is checked for parity at every request size before load.
 */
export function planRun(settings: BenchSettings, facts: PlanFacts): Step[] {
  const steps: Step[] = [
    { kind: "model", estimateS: facts.bundleExists ? 0.5 : 5 + facts.tableBytes / EXPORT_BYTES_PER_S },
  ];
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

function planArm(settings: BenchSettings, facts: PlanFacts, arm: string, repeat: number): Step[] {
  const startS = facts.families.get(arm) === "python" ? 10 : 2;
  const steps: Step[] = [{ kind: "start", arm, repeat, estimateS: startS + facts.tableBytes / READ_BYTES_PER_S }];
  for (const bReq of settings.requestBatchSizes) {
    // The first arm to come waits for the reference, which runs in plain TypeScript.
    const first = repeat === 1 && arm === settings.arms[0];
    steps.push({ kind: "parity", arm, repeat, bReq, estimateS: 0.2 + (first ? bReq * 0.03 : 0) });
  }
  for (const bReq of settings.requestBatchSizes) {
    for (const concurrency of settings.concurrencies) {
      const estimateS = settings.warmupS + settings.durationS + 1;
      steps.push({ kind: "load", arm, repeat, bReq, concurrency, estimateS });
    }
  }
  steps.push({ kind: "stop", arm, repeat, estimateS: 0.5 });
  return steps;
}

/** Steps of the same kind and arm take about as long. */
export function stepClass(step: Step): string {
  return "arm" in step ? `${step.kind} ${step.arm}` : step.kind;
}

export function describeStep(step: Step): string {
  switch (step.kind) {
    case "model":
      return "model";
    case "prepare":
      return `${step.arm}: prepare`;
    case "start":
      return `${step.arm}, repeat ${step.repeat}: start`;
    case "parity":
      return `${step.arm}, repeat ${step.repeat}: parity, B_req ${step.bReq}`;
    case "load":
      return `${step.arm}, repeat ${step.repeat}: load, B_req ${step.bReq}, C ${step.concurrency}`;
    case "stop":
      return `${step.arm}, repeat ${step.repeat}: stop`;
    case "report":
      return "report";
  }
}
