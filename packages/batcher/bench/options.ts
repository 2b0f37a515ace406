import { parseArgs } from "node:util";

export interface BenchOptions {
  readonly quick: boolean;
  readonly docs: boolean;
  readonly only: "simulation" | "costs" | undefined;
  readonly seed: number;
}

const FLAGS = ["quick", "docs", "only", "seed", "help"];
/** A flag that differs in more letters is not taken for a slip of the pen. */
const MOST_SLIPS = 2;

export const USAGE = `Usage: node --conditions=@dlrm/source packages/batcher/bench/run.ts [--only simulation|costs] [--quick] [--docs] [--seed N]

Plays the policies against simulated devices, measures what an item costs, and writes bench-results/batcher.json.

  --only PART  simulation or costs: that part only; the other's figures are kept
  --quick      fewer requests and items: some seconds, for a look
  --docs       also writes docs/policies.md, docs/policies.svg, docs/costs.md
  --seed N     of the simulation's random numbers, a whole number (default 1)
  --help       this text`;

/** What the command line asks for, or what is wrong with it. */
export function optionsOf(args: readonly string[]): BenchOptions | "help" | { readonly problem: string } {
  const problem = args.map(findUnknown).find((found) => found !== undefined);
  if (problem !== undefined) {
    return { problem: `${problem}\n\n${USAGE}` };
  }
  let given: { quick?: boolean; docs?: boolean; only?: string; seed?: string; help?: boolean };
  try {
    given = parseArgs({
      args: [...args],
      options: {
        quick: { type: "boolean" },
        docs: { type: "boolean" },
        only: { type: "string" },
        seed: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    }).values;
  } catch (error) {
    return { problem: `${(error as Error).message}\n\n${USAGE}` };
  }
  const { quick = false, docs = false, only, seed = "1", help = false } = given;
  if (help) {
    return "help";
  }
  if (only !== undefined && only !== "simulation" && only !== "costs") {
    return { problem: `--only: expected simulation or costs, received ${only}` };
  }
  return /^\d{1,9}$/.test(seed)
    ? { quick, docs, only, seed: Number(seed) }
    : { problem: `--seed: expected a whole number below 10^9, received ${seed}` };
}

function findUnknown(arg: string): string | undefined {
  const name = /^--([^=]+)/.exec(arg)?.[1];
  if (name === undefined || FLAGS.includes(name)) {
    return undefined;
  }
  const [nearest] = FLAGS.map((flag) => ({ flag, slips: slipsBetween(name, flag) })).toSorted(
    (a, b) => a.slips - b.slips,
  );
  const meant = nearest !== undefined && nearest.slips <= MOST_SLIPS ? `; did you mean --${nearest.flag}?` : "";
  return `unknown flag --${name}${meant}`;
}

/** Letters to add, to leave out or to change to make one word of the other. */
function slipsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const changed = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row.at(-1) as number;
}
