/**
 * `node --conditions=@dlrm/source packages/batcher/test/ring-model/run.ts [--large] [NAME...]`: searches the cases, or those whose
 * names begin so, and prints the table of docs/shared-ring.md; with `--large` also those that take minutes.
 */
import { BOUNDED_CASES, LARGE_CASES, WHOLE_CASES } from "./cases.ts";
import { PROTOCOL } from "./protocol.ts";
import { RingModel } from "./ring-model.ts";
import { search } from "./search.ts";

const args = process.argv.slice(2);
const names = args.filter((arg) => arg !== "--large");
const cases = [...WHOLE_CASES, ...BOUNDED_CASES, ...(args.includes("--large") ? LARGE_CASES : [])].filter(
  ({ name }) => names.length === 0 || names.some((start) => name.startsWith(start)),
);
console.log("| case | interruptions | states | steps between them | longest way |");
console.log("| --- | --- | --- | --- | --- |");
for (const ringCase of cases) {
  const { states, transitions, depth } = search(new RingModel(ringCase, PROTOCOL));
  const columns = [ringCase.name, ringCase.interruptions ?? "any", states, transitions, depth];
  console.log(`| ${columns.map((column) => column.toLocaleString("en")).join(" | ")} |`);
}
