import { bestPoint } from "./budgets.ts";
import type { Point, Summary } from "./summary.ts";
import { armsThatFailedParity } from "./failed-parity.ts";

/** The bound on p99 that bars are drawn within. */
export const CHART_BUDGET_MS = 20;

/** What the charts of a run are drawn from. */
export interface ChartData {
  /** Closed-loop points. */
  readonly points: readonly Point[];
  /** Arms that have points, in the order they were asked for: an arm's place is that of its colour. */
  readonly arms: readonly string[];
  /** Request sizes, ascending. */
  readonly sizes: readonly number[];
  /** Arms that failed parity. */
  readonly failedParity: ReadonlySet<string>;
}

export function chartData(summary: Summary): ChartData {
  const points = summary.points.filter((point) => point.mode === "closed");
  const named = [...(summary.arms ?? []).map((arm) => arm.arm), ...points.map((point) => point.arm)];
  return {
    points,
    arms: [...new Set(named)].filter((arm) => points.some((point) => point.arm === arm)),
    sizes: [...new Set(points.map((point) => point.bReq))].sort((a, b) => a - b),
    failedParity: armsThatFailedParity(summary),
  };
}

/** At most three request sizes: the smallest, one in the middle and the largest. */
export function threeSizes(sizes: readonly number[]): number[] {
  if (sizes.length <= 3) return [...sizes];
  return [0, sizes.length >> 1, sizes.length - 1].map((index) => sizes[index] as number);
}

export function pointsOf({ points }: ChartData, arm: string, bReq: number): Point[] {
  return points
    .filter((point) => point.arm === arm && point.bReq === bReq)
    .sort((a, b) => (a.concurrency ?? 0) - (b.concurrency ?? 0));
}

/** A bar's point, and why it wins no comparison if it doesn't. */
export interface Best {
  readonly point: Point;
  readonly leftOut: string | undefined;
}

/** The arm's best point within the budget; if only points that comparisons leave out are, the best of those. */
export function bestOf(data: ChartData, arm: string, bReq: number, budgetMs: number | null): Best | undefined {
  const points = pointsOf(data, arm, bReq);
  const failed = data.failedParity.has(arm);
  const best = failed ? undefined : bestPoint(points, budgetMs);
  if (best !== undefined) return { point: best, leftOut: undefined };
  const leftOut = bestPoint(points, budgetMs, { clientBound: true, errors: true });
  if (leftOut === undefined) return undefined;
  const why = failed ? "failed parity" : leftOut.clientBound ? "client-bound" : "with errors";
  return { point: leftOut, leftOut: `, ${why}` };
}

/** Peak memory of an arm's processes over all its points: PSS, or RSS where the system does not tell PSS. */
export function peakMemory({ points }: ChartData, arm: string): { bytes: number; measure: "PSS" | "RSS" } | undefined {
  const ofArm = points.filter((point) => point.arm === arm);
  for (const [measure, field] of [
    ["PSS", "serverPeakPssBytes"],
    ["RSS", "serverPeakRssBytes"],
  ] as const) {
    const values = ofArm.map((point) => point[field]).filter((value) => value !== null);
    if (values.length > 0) return { bytes: Math.max(...values), measure };
  }
  return undefined;
}
