import { bestPoint } from "./budgets.ts";
import { formatBytes, formatNumber } from "./format.ts";
import { left, right, table } from "./markdown.ts";
import type { ReportContext } from "./report-tables.ts";

/** How a gauge's name ends, and how its values are written. */
const UNITS: readonly { readonly suffix: string; readonly format: (value: number) => string }[] = [
  { suffix: "Percent", format: (value) => `${Math.round(value)} %` },
  { suffix: "Bytes", format: formatBytes },
  { suffix: "W", format: (value) => `${formatNumber(value)} W` },
];

/** What the accelerator's gauges showed at each arm's peak; nothing where there are no gauges. */
export function accelerator({ closed, sizes, arms, label }: ReportContext): string {
  const names = [...new Set(closed.flatMap((point) => Object.keys(point.gauges ?? {})))].sort();
  if (names.length === 0) return "";
  const rows = sizes.flatMap((bReq) =>
    arms.map((arm) => {
      const points = closed.filter((point) => point.arm === arm && point.bReq === bReq);
      const best = bestPoint(points, null) ?? points.at(-1);
      return [
        String(bReq),
        arm,
        best === undefined ? "–" : String(best.concurrency),
        ...names.map((name) => valueText(name, best?.gauges?.[name])),
      ];
    }),
  );
  return [
    `## Accelerator${label}`,
    table([right("B_req"), left("arm"), right("at C"), ...names.map((name) => right(titleOf(name)))], rows),
    "At the arm's peak, means over the measured time; of the whole device, whoever uses it.",
  ].join("\n\n");
}

function valueText(name: string, value: number | undefined): string {
  if (value === undefined) return "–";
  return (UNITS.find(({ suffix }) => name.endsWith(suffix))?.format ?? formatNumber)(value);
}

/** `gpu0UtilizationPercent` is `gpu0 utilization`. */
function titleOf(name: string): string {
  const suffix = UNITS.find((unit) => name.endsWith(unit.suffix))?.suffix ?? "";
  const words = name.slice(0, name.length - suffix.length).replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.trim();
}
