import { type Step, stepClass } from "./plan.ts";

/** Estimates what is left of a plan: a step takes as long as the last one of its class did, else what the plan says. */
export class TimeLeft {
  readonly #steps: readonly Step[];
  readonly #lastS: Map<string, number> = new Map();

  constructor(steps: readonly Step[]) {
    this.#steps = steps;
  }

  done(step: Step, tookS: number): void {
    this.#lastS.set(stepClass(step), tookS);
  }

  /** Seconds from the start of step `index` (from 0) to the end; steps that `skips` says are left out count nothing. */
  from(index: number, skips: (step: Step) => boolean = () => false): number {
    let sumS = 0;
    for (const step of this.#steps.slice(index)) {
      if (!skips(step)) sumS += this.#lastS.get(stepClass(step)) ?? step.estimateS;
    }
    return sumS;
  }
}

/** `45 s`, `12 min`, `1 h 05 min`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}
