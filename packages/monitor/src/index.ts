export { acceleratorGauges } from "./accelerator-gauges.ts";
export type { Gauge } from "./gauge.ts";
export { monitorAvailability, startMonitor } from "./monitor.ts";
export type { Monitor, MonitorOptions, MonitorResult, Sample, Snapshot } from "./monitor.ts";
export { MonitorError } from "./monitor-error.ts";
export type { MonitorErrorCode } from "./monitor-error.ts";
