import { bootstrapRatio, type BootstrapOptions, type RatioInterval } from "./bootstrap.ts";
import type { Budget, Point, PointRepeat, Summary } from "./summary.ts";

/** Two runs side by side: B against A. */
export interface RunComparison {
  readonly points: readonly PointComparison[];
  /** Engine ÷ Python of either run, for the request sizes and bounds that both have. */
  readonly budgets: readonly BudgetComparison[];
  /** Points of one run that the other does not have, as `engine, B_req 16, C 64`. */
  readonly onlyA: readonly string[];
  readonly onlyB: readonly string[];
  /** Settings and environment that differ. */
  readonly changes: readonly Change[];
}

export interface PointComparison {
  readonly arm: string;
  readonly bReq: number;
  /** `C 16`, or `50 % of the peak`. */
  readonly load: string;
  readonly a: Point;
  readonly b: Point;
  /** B ÷ A; null where a side has no value. */
  readonly examplesPerS: RatioInterval | null;
  readonly p99Ms: RatioInterval | null;
  readonly cpuMicros: RatioInterval | null;
}

export interface BudgetComparison {
  readonly bReq: number;
  readonly budgetMs: number;
  readonly a: Budget;
  readonly b: Budget;
}

export interface Change {
  readonly of: "run" | "settings" | "environment";
  readonly name: string;
  readonly a: string;
  readonly b: string;
}

/** Differ in any two runs, and say nothing. */
const ALWAYS_DIFFER = new Set(["startedAt", "finishedAt", "command"]);

export function compareRuns(a: Summary, b: Summary, options: BootstrapOptions = {}): RunComparison {
  const inB = new Map(b.points.map((point) => [pointName(point), point]));
  const inA = new Set(a.points.map(pointName));
  const points = a.points.flatMap((point): PointComparison[] => {
    const other = inB.get(pointName(point));
    if (other === undefined) return [];
    const ratio = (value: (repeat: PointRepeat) => number | null): RatioInterval | null =>
      bootstrapRatio(present(point, value), present(other, value), options);
    return [
      {
        arm: point.arm,
        bReq: point.bReq,
        load: loadName(point),
        a: point,
        b: other,
        examplesPerS: ratio((repeat) => repeat.examplesPerS),
        p99Ms: ratio((repeat) => repeat.p99Ms),
        cpuMicros: ratio((repeat) => repeat.serverCpuMicrosPerExample),
      },
    ];
  });
  return {
    points,
    budgets: a.budgets.flatMap((budget) => {
      const other = b.budgets.find(({ bReq, budgetMs }) => bReq === budget.bReq && budgetMs === budget.budgetMs);
      return other === undefined ? [] : [{ bReq: budget.bReq, budgetMs: budget.budgetMs, a: budget, b: other }];
    }),
    onlyA: a.points.map(pointName).filter((name) => !inB.has(name)),
    onlyB: b.points.map(pointName).filter((name) => !inA.has(name)),
    changes: [
      ...changesOf("run", head(a), head(b)),
      ...changesOf("settings", a.settings, b.settings),
      ...changesOf("environment", a.environment, b.environment),
    ],
  };
}

/** Whether an interval leaves out 1: a difference that repeats of the runs do not explain. */
export function isDifferent(interval: RatioInterval | null): boolean {
  return (
    interval !== null && interval.low !== null && interval.high !== null && (interval.low > 1 || interval.high < 1)
  );
}

function present(point: Point, value: (repeat: PointRepeat) => number | null): number[] {
  return point.repeats.map(value).filter((item) => item !== null);
}

function loadName(point: Point): string {
  if (point.mode === "closed") return `C ${point.concurrency}`;
  return point.peakFraction === undefined
    ? `${point.offeredRps} requests/s`
    : `${Math.round(point.peakFraction * 100)} % of the peak`;
}

function pointName(point: Point): string {
  return `${point.arm}, B_req ${point.bReq}, ${loadName(point)}`;
}

function head({ platform, preset, interrupted = false }: Summary): Record<string, unknown> {
  return { platform, preset, interrupted };
}

function changesOf(
  of: Change["of"],
  a: Readonly<Record<string, unknown>>,
  b: Readonly<Record<string, unknown>>,
): Change[] {
  const left = flat(a);
  const right = flat(b);
  return [...new Set([...left.keys(), ...right.keys()])].flatMap((name) => {
    const from = left.get(name) ?? "–";
    const to = right.get(name) ?? "–";
    return from === to || ALWAYS_DIFFER.has(name) ? [] : [{ of, name, a: from, b: to }];
  });
}

/** Fields of objects within, such as versions of packages, become names with dots. */
function flat(values: Readonly<Record<string, unknown>>, prefix = ""): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const name = `${prefix}${key}`;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      for (const [inner, text] of flat(value as Record<string, unknown>, `${name}.`)) fields.set(inner, text);
    } else {
      fields.set(
        name,
        Array.isArray(value) ? value.join(", ") : typeof value === "string" ? value : JSON.stringify(value),
      );
    }
  }
  return fields;
}
