import { chartData, peakMemory } from "./chart-data.ts";
import { formatBytes } from "./format.ts";
import { flawsOf, type PointFlaw } from "./point.ts";
import type { ArmFamily, Summary } from "./summary.ts";

/** What the page's script draws: plain data, put into the page as JSON. */
export interface PageData {
  readonly arms: readonly PageArm[];
  readonly sizes: readonly number[];
  readonly points: readonly PagePoint[];
  /** Ends the title of every chart. */
  readonly label: string;
}

export interface PageArm {
  readonly name: string;
  readonly family: ArmFamily | null;
  /** Place of its colour and mark. */
  readonly series: number;
  readonly memoryBytes: number | null;
  /** As `3.04 GiB PSS`; empty if it was not measured. */
  readonly memoryText: string;
}

export interface PagePoint {
  readonly arm: string;
  readonly bReq: number;
  readonly concurrency: number | null;
  /** Of the open loop, in percent. */
  readonly peakPercent: number | null;
  readonly examplesPerS: number;
  readonly lowest: number;
  readonly highest: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly cpuMicros: number | null;
  /** Why it wins no comparison; empty if it may. */
  readonly leftOut: string;
}

const LEFT_OUT: Readonly<Record<PointFlaw | "none", string>> = {
  none: "",
  "failed parity": "failed parity",
  "client-bound": "client-bound",
  errors: "with errors",
  "sends dropped": "sends dropped",
};

export function pageData(summary: Summary): PageData {
  const data = chartData(summary);
  const { failedParity } = data;
  return {
    sizes: data.sizes,
    label: summary.simulatedAccelerator ? ", simulated accelerator" : "",
    arms: data.arms.map((name, series) => {
      const memory = peakMemory(data, name);
      const family = (summary.arms ?? []).find(({ arm }) => arm === name)?.family ?? null;
      const memoryText = memory === undefined ? "" : `${formatBytes(memory.bytes)} ${memory.measure}`;
      return { name, family, series, memoryBytes: memory?.bytes ?? null, memoryText };
    }),
    points: summary.points.map((point) => {
      const repeats = point.repeats.map((repeat) => repeat.examplesPerS);
      return {
        arm: point.arm,
        bReq: point.bReq,
        concurrency: point.concurrency,
        peakPercent: point.peakFraction === undefined ? null : Math.round(point.peakFraction * 100),
        examplesPerS: point.examplesPerS,
        lowest: Math.min(...repeats),
        highest: Math.max(...repeats),
        p50Ms: point.p50Ms,
        p99Ms: point.p99Ms,
        cpuMicros: point.serverCpuMicrosPerExample,
        leftOut: LEFT_OUT[flawsOf(point, failedParity)[0] ?? "none"],
      };
    }),
  };
}
