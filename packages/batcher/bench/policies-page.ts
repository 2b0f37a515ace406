import { short } from "./chart.ts";
import type { GridFigures, GridPoint } from "./grid.ts";
import { BUDGET_MS } from "./grid.ts";

/** docs/policies.md: every point of the grid. */
export function policiesPage(all: readonly GridPoint[], worst: GridFigures): string {
  const rows = all.map(({ device, requestSize, loadName, results: r, throughputRatio, p99Ratio }) =>
    [
      device.name,
      requestSize,
      loadName,
      ...(["off", "window", "adaptive"] as const).map(
        (policy) => `${short(r[policy].itemsPerS)} / ${r[policy].p99Ms.toFixed(2)}`,
      ),
      throughputRatio.toFixed(3),
      p99Ratio.toFixed(3),
    ].join(" | "),
  );
  return `# The batching policies, simulated

Made by \`node --conditions=@dlrm/source packages/batcher/bench/run.ts --docs\`; do not edit.

The real batcher on a fake clock, with a device that runs one batch at a time, for a fixed time and a time for each item of
the batch padded to a power of two, of 4096 at most. Closed loop: C callers that each come back 60 µs ± 30 % after their answer.
Open loop: Poisson arrivals, at a share of what the device can do with each request alone ("off") or with full batches
("full"). \`off\` and \`window\` (1 ms) always pad up. A cell is items a second / p99 in ms; the last two columns compare
\`adaptive\` with the better of the others, for each measure by itself.

- Lowest throughput ratio: ${worst.adaptive_worst_throughput_ratio.toFixed(3)}; highest p99 ratio: ${worst.adaptive_worst_p99_ratio.toFixed(3)}.
- Best closed-loop throughput at p99 ≤ ${BUDGET_MS} ms, to the better of the others, geometric mean over devices and request
  sizes: ${worst.adaptive_budget_gain.toFixed(3)}.

![Closed-loop throughput by callers](./policies.svg)

| device | request | load | off | window | adaptive | throughput × | p99 × |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.map((row) => `| ${row} |`).join("\n")}
`;
}
