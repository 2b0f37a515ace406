import { formatRatio, formatSpread } from "./format.ts";
import { bulletList, left, right, table } from "./markdown.ts";
import { range } from "./statistics.ts";
import type { DenseNetworkRow, Summary } from "./summary.ts";

/** The section on what runs the dense network, without servers; empty without rows. */
export function denseNetwork({ denseNetwork: rows = [], environment }: Summary): string {
  const [first] = rows;
  if (first === undefined) return "";
  const missing = rows.flatMap(({ device, precision, whyNot }) =>
    whyNot === undefined ? [] : [`**${device}, ${precision}** was not measured: ${whyNot}`],
  );
  const parts = [
    "## Dense network on this CPU",
    table(
      [left("device"), left("precision"), right("examples/s"), right("× the first row"), right("largest score error")],
      rows.map((row) => [
        row.device,
        row.precision,
        throughput(row),
        formatRatio(ratio(row, first)),
        row.maxAbsError === null ? "–" : row.maxAbsError.toExponential(2),
      ]),
    ),
    `Batches of ${first.batch} on ${first.numThreads === 1 ? "1 thread" : `${first.numThreads} threads`}, one after ` +
      "another, without a server and without tables; devices take turns. Errors are to the reference forward in float64." +
      instructionSets(environment.cpuInstructionSets),
    bulletList(missing),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

/** Without AMX a CPU gains little from bfloat16, and without VNNI or AMX little from int8. */
function instructionSets(names: string | undefined): string {
  if (names === undefined) return "";
  const has = names === "" ? "none of the vector instructions that matter here" : names.replaceAll(" ", ", ");
  return ` The CPU has ${has}${/amx|asimd/u.test(names) ? "" : ", and no AMX"}.`;
}

function throughput({ examplesPerS, batch, callMicros }: DenseNetworkRow): string {
  return formatSpread(examplesPerS, range(callMicros.map((micros) => (batch * 1e6) / micros)), callMicros.length);
}

function ratio({ examplesPerS }: DenseNetworkRow, first: DenseNetworkRow): number | null {
  return examplesPerS === null || !first.examplesPerS ? null : examplesPerS / first.examplesPerS;
}
