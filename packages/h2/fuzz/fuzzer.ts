import { checkClient, checkServer, makeClientFrames, makeServerFrames } from "./frames-target.ts";
import { checkBlocks, makeBlocks } from "./hpack-target.ts";
import { mutate } from "./mutate.ts";
import { Random } from "./random.ts";

export interface FuzzTarget {
  readonly name: string;
  make(random: Random): Buffer;
  /** Throws if a promise is broken; else what happened, in short. */
  check(input: Buffer, cuts: Random): string;
}

export const fuzzTargets: readonly FuzzTarget[] = [
  { name: "hpack", make: makeBlocks, check: checkBlocks },
  { name: "server", make: makeClientFrames, check: checkServer },
  { name: "client", make: makeServerFrames, check: checkClient },
];

/** Inputs kept to be changed further, at most. */
const MAX_POOL = 1000;

export interface FuzzResult {
  readonly inputs: number;
  /** The first input that showed each kind of outcome: the corpus. */
  readonly outcomes: ReadonlyMap<string, Buffer>;
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
 * Makes inputs and checks them. What shows an outcome that none before it did is kept, and changed further: guidance by
 * behaviour, which needs no instrumented code.
 */
export function fuzz(
  target: FuzzTarget,
  options: {
    readonly seed: number;
    readonly inputs: number;
    readonly corpus?: readonly Buffer[];
    readonly onProgress?: (inputs: number, outcomes: number) => void;
  },
): FuzzResult {
  const random = new Random(options.seed);
  const outcomes = new Map<string, Buffer>();
  const pool: Buffer[] = [...(options.corpus ?? [])];
  for (let inputs = 0; inputs < options.inputs; inputs++) {
    if (inputs % 10_000 === 0) options.onProgress?.(inputs, outcomes.size);
    const base = pool.length > 0 && random.once(2) ? random.pick(pool) : target.make(random);
    const input = random.once(6) ? base : mutate(random, base, pool.length > 0 ? random.pick(pool) : base);
    let outcome: string;
    try {
      outcome = target.check(input, random);
    } catch (cause) {
      throw new FuzzFailure(target.name, options.seed, inputs, input, cause);
    }
    if (outcomes.has(outcome)) continue;
    outcomes.set(outcome, input);
    if (pool.length < MAX_POOL) pool.push(input);
    else pool[random.below(MAX_POOL)] = input;
  }
  return { inputs: options.inputs, outcomes };
}
