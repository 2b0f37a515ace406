import { expect, it } from "vitest";
import { fixedSummary } from "../test/fixed-summary.ts";
import { denseNetwork } from "./dense-network-table.ts";
import { renderPage } from "./render-page.ts";
import { renderReport } from "./render-report.ts";
import type { DenseNetworkRow, Summary } from "./summary.ts";

const FIRST: DenseNetworkRow = {
  device: "onnxruntime 1.30.0 (cpu, 1 thread)",
  precision: "float32",
  batch: 128,
  numThreads: 1,
  examplesPerS: 1280,
  maxAbsError: 7.94e-7,
  callMicros: [100_000, 64_000, 128_000],
};
const INT8: DenseNetworkRow = {
  ...FIRST,
  precision: "int8",
  examplesPerS: 3200,
  maxAbsError: 0.055,
  callMicros: [40_000],
};
const MISSING: DenseNetworkRow = {
  ...FIRST,
  device: "PJRT",
  examplesPerS: null,
  maxAbsError: null,
  callMicros: [],
  whyNot: "no plugin:\n  it is not there",
};

function summaryOf(...rows: DenseNetworkRow[]): Summary {
  return { ...fixedSummary(), platform: "cpu", simulatedAccelerator: false, denseNetwork: rows };
}

const SECTION = `## Dense network on this CPU

| device | precision | examples/s | × the first row | largest score error |
| --- | --- | ---: | ---: | ---: |
| onnxruntime 1.30.0 (cpu, 1 thread) | float32 | 1,280 (1,000–2,000) | 1.00× | 7.94e-7 |
| onnxruntime 1.30.0 (cpu, 1 thread) | int8 | 3,200 | 2.50× | 5.50e-2 |
| PJRT | float32 | – | – | – |

Batches of 128 on 1 thread, one after another, without a server and without tables; devices take turns. Errors are to the reference forward in float64.

- **PJRT, float32** was not measured: no plugin: it is not there`;

it("has a row a device with its ratio to the first, and says why a device has no figures", () => {
  expect(denseNetwork(summaryOf(FIRST, INT8, MISSING))).toBe(SECTION);
});

it.each([
  ["avx2 avx512f avx512_vnni", " The CPU has avx2, avx512f, avx512_vnni, and no AMX."],
  ["avx2 avx512_vnni amx_tile amx_int8", " The CPU has avx2, avx512_vnni, amx_tile, amx_int8."],
  ["asimd i8mm", " The CPU has asimd, i8mm."],
  ["", " The CPU has none of the vector instructions that matter here, and no AMX."],
])("says which instruction sets the CPU has: %j", (cpuInstructionSets, sentence) => {
  const summary = summaryOf(FIRST, INT8, MISSING);
  const section = denseNetwork({ ...summary, environment: { ...summary.environment, cpuInstructionSets } });
  expect(section).toBe(SECTION.replace("in float64.", `in float64.${sentence}`));
});

it("is nothing without rows", () => {
  expect(denseNetwork(summaryOf())).toBe("");
  expect(denseNetwork(fixedSummary())).toBe("");
});

it("has no ratios if the first device has no figures", () => {
  expect(denseNetwork(summaryOf({ ...MISSING, numThreads: 4 }, { ...INT8, numThreads: 4 }))).toContain(
    "| PJRT | float32 | – | – | – |\n| onnxruntime 1.30.0 (cpu, 1 thread) | int8 | 3,200 | – | 5.50e-2 |\n\n" +
      "Batches of 128 on 4 threads, ",
  );
});

it("stands before parity in the report, in an empty one too, and in the page", () => {
  const summary = summaryOf(FIRST, INT8, MISSING);
  const report = renderReport(summary);
  expect(report).toContain(`\n\n${SECTION}\n\n## Parity\n`);
  expect(renderReport({ ...summary, points: [] })).toContain(`No point was measured.\n\n${SECTION}\n\n## Parity\n`);
  const page = renderPage(summary);
  expect(page).toContain("<h2>Dense network on this CPU</h2>");
  expect(page).toContain(
    "<td>onnxruntime 1.30.0 (cpu, 1 thread)</td><td>int8</td>" +
      '<td class="end">3,200</td><td class="end">2.50×</td><td class="end">5.50e-2</td>',
  );
});
