import { errorCount } from "./point.ts";
import type { ArmFamily, Budget, BudgetWinner, Point } from "./summary.ts";

/** Bounds on p99 that a report compares arms within. */
export const BUDGETS_MS: readonly number[] = [10, 20, 50];

/** Points that comparisons leave out, let in for other purposes. */
export interface LetIn {
  readonly clientBound?: boolean;
  readonly errors?: boolean;
}

/**
 * Whether a point may stand for its arm: closed loop, no errors, not client-bound, and p99 within the budget
 * (`null`: any p99).
 */
export function isEligible(point: Point, budgetMs: number | null, letIn: LetIn = {}): boolean {
  if (point.mode !== "closed" || point.p99Ms === null) return false;
  if (point.clientBound && letIn.clientBound !== true) return false;
  if (errorCount(point) > 0 && letIn.errors !== true) return false;
  return budgetMs === null || point.p99Ms <= budgetMs;
}

/** The eligible point of the highest throughput; of equals, the first. */
export function bestPoint(points: readonly Point[], budgetMs: number | null, letIn: LetIn = {}): Point | undefined {
  let best: Point | undefined;
  for (const point of points) {
    if (!isEligible(point, budgetMs, letIn)) continue;
    if (best === undefined || point.examplesPerS > best.examplesPerS) best = point;
  }
  return best;
}

/**
 * For each request size and budget: the best engine arm, the best Python arm, and the ratio of their throughputs.
 *
 * @param families family of each arm by name; arms that are not named compete in no family.
 */
export function compareWithinBudgets(
  points: readonly Point[],
  families: ReadonlyMap<string, ArmFamily>,
  budgetsMs: readonly number[] = BUDGETS_MS,
): Budget[] {
  const sizes = [...new Set(points.map((point) => point.bReq))].sort((a, b) => a - b);
  return sizes.flatMap((bReq) =>
    budgetsMs.map((budgetMs) => ({ bReq, budgetMs, ...compareWithin(points, families, bReq, budgetMs) })),
  );
}

/** One comparison of `compareWithinBudgets`; `null` is no bound at all. */
export function compareWithin(
  points: readonly Point[],
  families: ReadonlyMap<string, ArmFamily>,
  bReq: number,
  budgetMs: number | null,
): Pick<Budget, "engine" | "python" | "ratio"> {
  const winnerOf = (family: ArmFamily): BudgetWinner | null => {
    const candidates = points.filter((point) => point.bReq === bReq && families.get(point.arm) === family);
    const best = bestPoint(candidates, budgetMs);
    return best === undefined ? null : { arm: best.arm, examplesPerS: best.examplesPerS };
  };
  const engine = winnerOf("engine");
  const python = winnerOf("python");
  const comparable = engine !== null && python !== null && python.examplesPerS > 0;
  return { engine, python, ratio: comparable ? engine.examplesPerS / python.examplesPerS : null };
}
