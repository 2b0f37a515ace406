import { expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { renderPage } from "./render-page.ts";
import { renderReport } from "./render-report.ts";
import type { Summary } from "./summary.ts";
import { validateSummary } from "./validate-summary.ts";

const GAUGES = { gpu0UtilizationPercent: 61.6, gpu0MemoryBytes: 3 * 2 ** 30, gpu0PowerW: 312.4 };
const SECTION = `## Accelerator

| B_req | arm | at C | gpu0 memory | gpu0 power | gpu0 utilization |
| ---: | --- | ---: | ---: | ---: | ---: |
| 16 | engine | 8 | 3.00 GiB | 312 W | 62 % |
| 16 | py | 4 | – | – | – |

At the arm's peak, means over the measured time; of the whole device, whoever uses it.`;

const summary: Summary = {
  ...fixedSummary(),
  platform: "cuda",
  simulatedAccelerator: false,
  points: [
    closedPoint("engine", 16, 1, [500], { gauges: { gpu0UtilizationPercent: 5 } }),
    closedPoint("engine", 16, 8, [3000], { gauges: GAUGES }),
    closedPoint("py", 16, 4, [1000]),
  ],
  budgets: [],
};

it("shows what the gauges said at each arm's peak", () => {
  expect(validateSummary(structuredClone(summary))).toEqual(summary);
  expect(renderReport(summary)).toContain(`\n\n${SECTION}\n\n`);
  expect(renderPage(summary)).toContain("gpu0 utilization");
});

it("is left out where there are no gauges", () => {
  expect(renderReport(fixedSummary())).not.toContain("## Accelerator");
});
