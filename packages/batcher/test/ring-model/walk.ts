import type { Model } from "./search.ts";
import { Violation, traceOf } from "./search.ts";

/** A model whose steps are of threads. */
export interface ThreadsModel extends Model {
  /** -1: a death. */
  threadOf: (step: number) => number;
}

const MOST_STEPS = 64;
/** Deaths come after up to so many steps. */
const DEATH_WITHIN = 120;
/** A thread goes on for so many steps in a row, on the average, at most: with a fair draw none is ever far behind. */
const LONGEST_STAY = 12;

/** Goes from the beginning to an end so many times, by steps drawn from a seed. Throws a `Violation`. */
export function walk(model: ThreadsModel, walks: number, seed: number): void {
  const random = randomOf(seed);
  const from = new Int32Array(model.words);
  const state = new Int32Array(model.words);
  const steps = new Int32Array(MOST_STEPS);
  /** Leaves only those of the first `count` steps that are wanted, if there are any. Returns how many are left. */
  const keep = (count: number, isWanted: (step: number) => boolean): number => {
    let kept = 0;
    for (let k = 0; k < count; k += 1) {
      const step = steps[k] as number;
      if (isWanted(step)) {
        steps[kept] = step;
        kept += 1;
      }
    }
    return kept === 0 ? count : kept;
  };
  for (let i = 0; i < walks; i += 1) {
    const path: number[] = [];
    const deathAfter = random(DEATH_WITHIN);
    const stay = 1 + random(LONGEST_STAY);
    let last = -1;
    state.fill(0);
    model.writeInitial(state);
    try {
      for (;;) {
        let count = model.stepsOf(state, steps);
        if (count === 0) {
          model.checkEnd(state);
          break;
        }
        if (path.length < deathAfter) {
          count = keep(count, (step) => model.threadOf(step) >= 0);
        }
        if (random(stay) > 0) {
          const thread = last;
          count = keep(count, (step) => model.threadOf(step) === thread);
        }
        const step = steps[random(count)] as number;
        last = model.threadOf(step);
        path.push(step);
        from.set(state);
        model.take(from, state, step);
      }
    } catch (error) {
      throw error instanceof Error ? new Violation(error, traceOf(model, path), `found in walk ${i}`) : error;
    }
  }
}

function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 0x7fffffff;
    return state % below;
  };
}
