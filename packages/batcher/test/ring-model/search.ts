import { StateSet } from "./state-set.ts";

/** What is searched: states of a fixed number of words, and the steps that lead from one to others. */
export interface Model {
  readonly words: number;
  writeInitial: (state: Int32Array) => void;
  /** Fills `steps` with those of a state and returns how many. */
  stepsOf: (state: Int32Array, steps: Int32Array) => number;
  /** Turns `state`, a copy of `from`, into what follows. Throws when that breaks an invariant. */
  take: (from: Int32Array, state: Int32Array, step: number) => void;
  /** A state without steps. Throws when it should have some. */
  checkEnd: (state: Int32Array) => void;
  describe: (state: Int32Array, step: number) => string;
}

export interface SearchResult {
  readonly states: number;
  readonly ends: number;
  readonly transitions: number;
  /** Steps to the farthest state. */
  readonly depth: number;
}

/** An invariant that does not hold, and a way there: by a search the shortest. */
export class Violation extends Error {
  readonly trace: readonly string[];

  constructor(cause: Error, trace: readonly string[], found: string) {
    super(`${cause.message}\n${found}, after ${trace.length} steps:\n${trace.join("\n")}`, { cause });
    this.trace = trace;
  }
}

/** Most steps that a state may have. */
const MOST_STEPS = 64;

/** Goes through all states, nearest first. Throws a `Violation` at the first that breaks an invariant. */
export function search(model: Model, mostStates = Infinity): SearchResult {
  const { words } = model;
  const seen = new StateSet();
  /** For each state how it was come to: the number of the state before, and the step. */
  const cameFrom = new Growing();
  const cameBy = new Growing();
  let level = new Int32Array(words);
  let levelStates = 1;
  let firstOfLevel = 0;
  model.writeInitial(level);
  seen.add(level, 0, words);
  cameFrom.push(-1);
  cameBy.push(0);
  const from = new Int32Array(words);
  const state = new Int32Array(words);
  const steps = new Int32Array(MOST_STEPS);
  let ends = 0;
  let transitions = 0;
  let depth = 0;
  const violation = (cause: unknown, at: number, last: number | undefined): Error => {
    const path = last === undefined ? [] : [last];
    for (let i = at; i > 0; i = cameFrom.at(i)) {
      path.unshift(cameBy.at(i));
    }
    return cause instanceof Error
      ? new Violation(cause, traceOf(model, path), `found among ${seen.size} states`)
      : (cause as Error);
  };
  for (;;) {
    let next = new Int32Array(Math.max(words * 64, level.length));
    let nextStates = 0;
    for (let i = 0; i < levelStates; i += 1) {
      for (let k = 0, at = i * words; k < words; k += 1) {
        from[k] = level[at + k] as number;
      }
      const count = model.stepsOf(from, steps);
      if (count === 0) {
        ends += 1;
        try {
          model.checkEnd(from);
        } catch (error) {
          throw violation(error, firstOfLevel + i, undefined);
        }
      }
      for (let k = 0; k < count; k += 1) {
        const step = steps[k] as number;
        transitions += 1;
        state.set(from);
        try {
          model.take(from, state, step);
        } catch (error) {
          throw violation(error, firstOfLevel + i, step);
        }
        if (seen.add(state, 0, words)) {
          if ((nextStates + 1) * words > next.length) {
            const larger = new Int32Array(next.length * 2);
            larger.set(next);
            next = larger;
          }
          next.set(state, nextStates * words);
          nextStates += 1;
          cameFrom.push(firstOfLevel + i);
          cameBy.push(step);
        }
      }
    }
    if (seen.size > mostStates) {
      throw new Error(`there are more than ${mostStates} states`);
    }
    if (nextStates === 0) {
      return { states: seen.size, ends, transitions, depth };
    }
    firstOfLevel += levelStates;
    level = next;
    levelStates = nextStates;
    depth += 1;
  }
}

/** What the steps of a path are, in words. */
export function traceOf(model: Model, path: readonly number[]): string[] {
  const from = new Int32Array(model.words);
  const state = new Int32Array(model.words);
  model.writeInitial(state);
  const trace: string[] = [];
  for (const step of path) {
    from.set(state);
    trace.push(model.describe(from, step));
    try {
      model.take(from, state, step);
    } catch {
      // The last one, which is why there is a trace.
    }
  }
  return trace;
}

class Growing {
  #values = new Int32Array(1 << 12);
  #length = 0;

  at(i: number): number {
    return this.#values[i] as number;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const larger = new Int32Array(this.#length * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#length] = value;
    this.#length += 1;
  }
}
