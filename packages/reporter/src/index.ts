export { SUMMARY_SCHEMA_VERSION } from "./summary.ts";
export type {
  ArmFamily,
  ArmOutcome,
  Budget,
  BudgetWinner,
  DenseNetworkRow,
  ParityEntry,
  Point,
  PointRepeat,
  Summary,
  SummaryEnvironment,
  SummaryPlatform,
  SummarySettings,
} from "./summary.ts";
export { summarySchema, validateSummary } from "./validate-summary.ts";
export { ReporterError } from "./reporter-error.ts";
export type { ReporterErrorCode } from "./reporter-error.ts";
export { errorCount, isClientBound, pointOf, CLIENT_BOUND_CPU_FRACTION, CLIENT_BOUND_SEND_LAG_MS } from "./point.ts";
export type { PointKey } from "./point.ts";
export { bestPoint, BUDGETS_MS, compareWithinBudgets, isEligible } from "./budgets.ts";
export type { LetIn } from "./budgets.ts";
export { armsThatFailedParity, competingFamilies } from "./failed-parity.ts";
export { renderReport } from "./render-report.ts";
export type { ReportOptions } from "./render-report.ts";
export { renderCharts } from "./charts.ts";
export type { Chart } from "./charts.ts";
export { renderPage } from "./render-page.ts";
export { renderFiles } from "./render-files.ts";
export type { ReportFile } from "./render-files.ts";
export { compareRuns } from "./compare-runs.ts";
export type { BudgetComparison, Change, PointComparison, RunComparison } from "./compare-runs.ts";
export { bootstrapRatio } from "./bootstrap.ts";
export type { BootstrapOptions, RatioInterval } from "./bootstrap.ts";
export { renderComparison } from "./render-comparison.ts";
export type { ComparisonNames } from "./render-comparison.ts";
