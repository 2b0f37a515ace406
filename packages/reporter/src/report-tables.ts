import { bestPoint, compareWithin } from "./budgets.ts";
import {
  formatBytes,
  formatCount,
  formatNumber,
  formatOptional,
  formatPercent,
  formatRatio,
  formatSpread,
} from "./format.ts";
import { left, right, table } from "./markdown.ts";
import { CLIENT_BOUND_CPU_FRACTION, CLIENT_BOUND_SEND_LAG_MS, errorCount, flawsOf, type PointFlaw } from "./point.ts";
import { range } from "./statistics.ts";
import type { Budget, Point, PointRepeat, Summary } from "./summary.ts";
import { competingFamilies } from "./failed-parity.ts";

/** The budget that the headline is about. */
const HEADLINE_BUDGET_MS = 20;
const CLIENT_BOUND_MARK = "†";
const ERRORS_MARK = "‡";
const PARITY_MARK = "§";

/** What the sections of a report share. */
export interface ReportContext {
  readonly summary: Summary;
  /** Arms that have points, in the order they were asked for. */
  readonly arms: readonly string[];
  /** Request sizes, ascending. */
  readonly sizes: readonly number[];
  readonly closed: readonly Point[];
  /** Arms that failed parity. */
  readonly failedParity: ReadonlySet<string>;
  /** Ends each heading over measured values. */
  readonly label: string;
}

export function withinBudget(context: ReportContext): string {
  return [
    `## Throughput at p99 ≤ ${HEADLINE_BUDGET_MS} ms${context.label}`,
    budgetTable(context, HEADLINE_BUDGET_MS),
    `C is the number of closed-loop callers at which the arm did best. ${CLIENT_BOUND_MARK} only client-bound points ` +
      `(the load generator used over ${CLIENT_BOUND_CPU_FRACTION * 100} % of its CPUs, or its sends lagged over ` +
      `${CLIENT_BOUND_SEND_LAG_MS} ms at p99): left out of comparisons. ${ERRORS_MARK} only points with errors: left out, too. ` +
      (context.arms.some((arm) => context.failedParity.has(arm))
        ? `${PARITY_MARK} arms that failed parity: left out, too. `
        : "") +
      "– no point within the budget.",
  ].join("\n\n");
}

export function otherBudgets(context: ReportContext): string {
  const others = [...new Set(context.summary.budgets.map(({ budgetMs }) => budgetMs))].filter(
    (budgetMs) => budgetMs !== HEADLINE_BUDGET_MS,
  );
  return others
    .map((budgetMs) => `## Throughput at p99 ≤ ${budgetMs} ms${context.label}\n\n${budgetTable(context, budgetMs)}`)
    .join("\n\n");
}

export function peaks(context: ReportContext): string {
  return `## Peak throughput, any p99${context.label}\n\n${budgetTable(context, null)}`;
}

/** All arms, and the best engine arm against the best Python arm; `null` is no bound. */
function budgetTable(context: ReportContext, budgetMs: number | null): string {
  const rows = context.sizes.map((bReq) => {
    const budget = comparison(context, bReq, budgetMs);
    return [
      String(bReq),
      ...context.arms.map((arm) => bestCell(context, arm, bReq, budgetMs)),
      versus(budget),
      budget.ratio === null ? "–" : `**${formatRatio(budget.ratio)}**`,
    ];
  });
  return table(
    [right("B_req"), ...context.arms.map(right), left("best engine vs best Python"), right("engine ÷ Python")],
    rows,
  );
}

/** The summary's own comparison where it has one. */
export function comparison(
  { summary, closed }: Pick<ReportContext, "summary" | "closed">,
  bReq: number,
  budgetMs: number | null,
): Pick<Budget, "engine" | "python" | "ratio"> {
  return (
    summary.budgets.find((item) => item.bReq === bReq && item.budgetMs === budgetMs) ??
    compareWithin(closed, competingFamilies(summary), bReq, budgetMs)
  );
}

function versus({ engine, python }: Pick<Budget, "engine" | "python">): string {
  const side = (winner: Budget["engine"]): string =>
    winner === null ? "–" : `${winner.arm} ${formatNumber(winner.examplesPerS)}`;
  return `${side(engine)} vs ${side(python)}`;
}

/** The arm's best eligible point; if there is none, the best of those left out, marked. */
function bestCell({ closed, failedParity }: ReportContext, arm: string, bReq: number, budgetMs: number | null): string {
  const points = closed.filter((point) => point.arm === arm && point.bReq === bReq);
  if (failedParity.has(arm)) {
    const any = bestPoint(points, budgetMs, { clientBound: true, errors: true });
    return any === undefined ? "–" : `${throughput(any)} at C ${any.concurrency} ${PARITY_MARK}`;
  }
  const best = bestPoint(points, budgetMs);
  if (best !== undefined) return `${throughput(best)} at C ${best.concurrency}`;
  const bound = bestPoint(points, budgetMs, { clientBound: true });
  if (bound !== undefined) return `${throughput(bound)} at C ${bound.concurrency} ${CLIENT_BOUND_MARK}`;
  const faulty = bestPoint(points, budgetMs, { clientBound: true, errors: true });
  return faulty === undefined ? "–" : `${throughput(faulty)} at C ${faulty.concurrency} ${ERRORS_MARK}`;
}

function throughput(point: Point): string {
  return spread(point, point.examplesPerS, (repeat) => repeat.examplesPerS);
}

function spread(point: Point, value: number | null, of: (repeat: PointRepeat) => number | null): string {
  return formatSpread(value, range(point.repeats.map(of)), point.repeats.length);
}

export function smallestConcurrency({ closed, sizes, arms, label }: ReportContext): string {
  const smallest = Math.min(...closed.map((point) => point.concurrency ?? Infinity));
  return [
    `## Latency at C = ${smallest}, p50 / p99 ms${label}`,
    table(
      [right("B_req"), ...arms.map(right)],
      sizes.map((bReq) => [
        String(bReq),
        ...arms.map((arm) => {
          const point = closed.find((item) => item.arm === arm && item.bReq === bReq && item.concurrency === smallest);
          return point === undefined
            ? "–"
            : `${formatOptional(point.p50Ms)} / ${spread(point, point.p99Ms, (repeat) => repeat.p99Ms)}`;
        }),
      ]),
    ),
    "Ranges are of p99.",
  ].join("\n\n");
}

export function closedLoop(context: ReportContext): string {
  const { closed, arms, label } = context;
  const order = (point: Point): number[] => [point.bReq, point.concurrency ?? 0, arms.indexOf(point.arm)];
  const rows = [...closed].sort((a, b) => compareLists(order(a), order(b)));
  return [
    `## Closed loop, every point${label}`,
    table(
      [
        right("B_req"),
        right("C"),
        left("arm"),
        right("examples/s"),
        right("p50 ms"),
        right("p99 ms"),
        right("errors"),
        right("client CPU"),
        left("note"),
      ],
      rows.map((point) => [
        String(point.bReq),
        String(point.concurrency),
        point.arm,
        throughput(point),
        spread(point, point.p50Ms, (repeat) => repeat.p50Ms),
        spread(point, point.p99Ms, (repeat) => repeat.p99Ms),
        formatCount(errorCount(point)),
        formatPercent(point.clientCpuFraction),
        note(point, context),
      ]),
    ),
  ].join("\n\n");
}

export function openLoop(context: ReportContext): string {
  const { summary, arms, label } = context;
  const open = summary.points.filter((point) => point.mode === "open");
  if (open.length === 0) return "";
  const order = (point: Point): number[] => [point.bReq, arms.indexOf(point.arm), point.offeredRps ?? 0];
  return [
    `## Open loop${label}`,
    table(
      [
        right("B_req"),
        left("arm"),
        right("of its peak"),
        right("offered requests/s"),
        right("examples/s"),
        right("p50 ms"),
        right("p99 ms"),
        left("p99 ms of each repeat"),
        right("p99 ms from send"),
        right("dropped"),
        right("late"),
        right("errors"),
        left("note"),
      ],
      [...open]
        .sort((a, b) => compareLists(order(a), order(b)))
        .map((point) => [
          String(point.bReq),
          point.arm,
          formatPercent(point.peakFraction),
          formatOptional(point.offeredRps),
          throughput(point),
          formatOptional(point.p50Ms),
          formatOptional(point.p99Ms),
          point.repeats.map((repeat) => formatOptional(repeat.p99Ms)).join(", "),
          spread(point, point.p99FromSendMs ?? null, (repeat) => repeat.p99FromSendMs ?? null),
          point.dropped === undefined ? "–" : formatCount(point.dropped),
          point.late === undefined ? "–" : formatCount(point.late),
          formatCount(errorCount(point)),
          note(point, context),
        ]),
    ),
    "Poisson arrivals at a share of the arm's own closed-loop peak, whatever the server does. p50 and p99 count from the " +
      "intended send time, so that a server that stalls is charged for the requests that had to wait; *from send* counts from " +
      "the actual one. A send that found too many requests outstanding was *dropped* and is in no percentile.",
  ].join("\n\n");
}

const MARKS: Readonly<Record<PointFlaw, string>> = {
  "failed parity": ` ${PARITY_MARK}`,
  "client-bound": ` ${CLIENT_BOUND_MARK}`,
  errors: ` ${ERRORS_MARK}`,
  "sends dropped": "",
};

function note(point: Point, { failedParity, summary }: ReportContext): string {
  const flaws = flawsOf(point, failedParity).map((flaw) => `${flaw}${MARKS[flaw]}`);
  const { repeats = 0 } = summary.settings;
  const has = point.repeats.length;
  return [...flaws, ...(has < repeats ? [`${has} of ${repeats} repeats`] : [])].join(", ");
}

function compareLists(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

export function cost({ closed, sizes, arms, label }: ReportContext): string {
  const rows = sizes.flatMap((bReq) =>
    arms.map((arm) => {
      const points = closed.filter((point) => point.arm === arm && point.bReq === bReq);
      const best = bestPoint(points, null) ?? points.at(-1);
      const micros = best?.serverCpuMicrosPerExample ?? null;
      return [
        String(bReq),
        arm,
        best === undefined ? "–" : String(best.concurrency),
        best === undefined ? "–" : spread(best, micros, (repeat) => repeat.serverCpuMicrosPerExample),
        // CPU-seconds per 1,000 examples: µs an example / 1,000.
        micros === null ? "–" : formatNumber(micros / 1000),
        formatBytes(range(points.map((point) => point.serverPeakRssBytes))?.max),
        formatBytes(range(points.map((point) => point.serverPeakPssBytes))?.max),
      ];
    }),
  );
  return [
    `## CPU and memory of the server's processes${label}`,
    table(
      [
        right("B_req"),
        left("arm"),
        right("at C"),
        right("CPU µs an example"),
        right("CPU s per 1,000 examples"),
        right("peak RSS"),
        right("peak PSS"),
      ],
      rows,
    ),
    "CPU at the arm's peak; memory is the largest over all its points. RSS counts shared pages once a process, PSS once in all.",
  ].join("\n\n");
}
