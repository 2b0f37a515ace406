import { mutate } from "./mutate.ts";
import { Random } from "./random.ts";

export interface FuzzTarget {
  readonly name: string;
  make(random: Random): Buffer;
  /** Changes that keep the input's structure, every other time instead of those that do not know it. */
  mutate?(random: Random, input: Buffer, other: Buffer): Buffer;
  /** Throws if a promise is broken; else what happened, in short. */
  check(input: Buffer, cuts: Random): string;
}

/** Inputs kept to be changed further, at most. */
const MAX_POOL = 4000;

export interface FuzzResult {
  readonly inputs: number;
  /** The first input that showed each kind of outcome. */
  readonly outcomes: ReadonlyMap<string, Buffer>;
  /** The inputs that were news, in order: those of `outcomes`, and those that reached new places in the code. */
  readonly corpus: readonly Buffer[];
}

/** Tells whether what has run since it was last asked reached what nothing before did. */
export interface News {
  takeNews(): boolean;
}

export class FuzzFailure extends Error {
  override readonly name = "FuzzFailure";
  readonly input: Buffer;

  constructor(target: string, seed: number, inputs: number, input: Buffer, cause: unknown) {
    super(`${target}, seed ${seed}, input ${inputs}: ${input.toString("base64")}`, { cause });
    this.input = input;
  }
}

/**
 * Makes inputs and checks them. What shows an outcome that none before it did, or reaches new places in the code, is kept and
 * changed further. Without `news` outcomes alone guide, which needs no instrumented code.
 */
export async function fuzz(
  target: FuzzTarget,
  options: {
    readonly seed: number;
    readonly inputs: number;
    readonly corpus?: readonly Buffer[];
    readonly news?: News;
    /** Called every 10,000 inputs; false ends the run. */
    readonly onProgress?: (inputs: number, kept: number) => boolean;
  },
): Promise<FuzzResult> {
  const { seed, news } = options;
  const random = new Random(seed);
  const outcomes = new Map<string, Buffer>();
  const corpus: Buffer[] = [];
  const pool: Buffer[] = [];
  const check = (input: Buffer, inputs: number): void => {
    let outcome: string;
    try {
      outcome = target.check(input, random);
    } catch (cause) {
      throw new FuzzFailure(target.name, seed, inputs, input, cause);
    }
    const reachesMore = news?.takeNews() === true;
    if (outcomes.has(outcome) && !reachesMore) return;
    if (!outcomes.has(outcome)) outcomes.set(outcome, input);
    corpus.push(input);
    if (pool.length < MAX_POOL) pool.push(input);
    else pool[random.below(MAX_POOL)] = input;
  };
  for (const input of options.corpus ?? []) check(input, -1);
  let inputs = 0;
  for (; inputs < options.inputs; inputs++) {
    // Closed sockets have something left to do, which would pile up.
    if (inputs % 256 === 0) await new Promise(setImmediate);
    if (inputs % 10_000 === 0 && options.onProgress?.(inputs, corpus.length) === false) break;
    const base = pool.length > 0 && random.once(2) ? random.pick(pool) : target.make(random);
    const other = pool.length > 0 ? random.pick(pool) : base;
    check(random.once(6) ? base : change(target, random, base, other), inputs);
  }
  return { inputs, outcomes, corpus };
}

function change(target: FuzzTarget, random: Random, input: Buffer, other: Buffer): Buffer {
  const keepsStructure = random.once(2);
  return (keepsStructure ? target.mutate?.(random, input, other) : undefined) ?? mutate(random, input, other);
}
