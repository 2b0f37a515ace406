import { drawBars, type BarChart } from "./bar-chart.ts";
import { bestOf, CHART_BUDGET_MS, chartData, type ChartData, peakMemory, pointsOf, threeSizes } from "./chart-data.ts";
import { formatBytes, formatNumber } from "./format.ts";
import { drawLines, type LineChart, type LinePanel } from "./line-chart.ts";
import { flawsOf } from "./point.ts";
import { linearScale, logScale, type Scale, stepScale } from "./scale.ts";
import type { Point, Summary } from "./summary.ts";
import { PALETTES, type Palette, type Theme } from "./svg.ts";

export interface Chart {
  /** File name without theme and extension. */
  readonly name: string;
  readonly title: string;
  readonly svg: Readonly<Record<Theme, string>>;
  /** The chart's data, with a head line. */
  readonly csv: string;
}

/** The charts of a run; none if nothing was measured in a closed loop. */
export function renderCharts(summary: Summary): Chart[] {
  const data = chartData(summary);
  if (data.points.length === 0) return [];
  const suffix = `${summary.preset} on ${summary.platform}${summary.simulatedAccelerator ? ", simulated accelerator" : ""}`;
  const bars = (name: string, of: BarChart, csv: string): Chart =>
    chart(name, of.title, csv, (palette) => drawBars(of, palette));
  const lines = (name: string, of: LineChart, csv: string): Chart =>
    chart(name, of.title, csv, (palette) => drawLines(of, palette));
  return [
    bars("throughput", throughput(data, suffix), throughputCsv(data)),
    lines("scaling", scaling(data, suffix), pointsCsv(data)),
    lines("latency", latency(data, suffix), pointsCsv(data)),
    bars("cost", cost(data, suffix), costCsv(data)),
  ];
}

function chart(name: string, title: string, csv: string, draw: (palette: Palette) => string): Chart {
  return { name, title, svg: { light: draw(PALETTES.light), dark: draw(PALETTES.dark) }, csv };
}

function sizeTitle(bReq: number): string {
  return `${bReq} ${bReq === 1 ? "example" : "examples"} a request`;
}

function throughput(data: ChartData, suffix: string): BarChart {
  return {
    title: `Throughput at p99 ≤ ${CHART_BUDGET_MS} ms: ${suffix}`,
    names: data.arms,
    none: "none within the bound",
    panels: data.sizes.map((bReq) => ({
      title: `${sizeTitle(bReq)}, examples/s`,
      bars: data.arms.map((arm) => {
        const best = bestOf(data, arm, bReq, CHART_BUDGET_MS);
        if (best === undefined) return undefined;
        const value = best.point.examplesPerS;
        return {
          value,
          label: `${formatNumber(value)} /s${best.leftOut ?? ""}`,
          hollow: best.leftOut !== undefined,
        };
      }),
    })),
  };
}

function cost(data: ChartData, suffix: string): BarChart {
  const cpu = data.sizes.map((bReq) => ({
    title: `${sizeTitle(bReq)}: CPU µs an example at the peak`,
    bars: data.arms.map((arm) => {
      const best = bestOf(data, arm, bReq, null);
      const value = best?.point.serverCpuMicrosPerExample ?? null;
      if (best === undefined || value === null) return undefined;
      return { value, label: `${formatNumber(value)} µs${best.leftOut ?? ""}`, hollow: best.leftOut !== undefined };
    }),
  }));
  const memory = data.arms.map((arm) => {
    const peak = peakMemory(data, arm);
    if (peak === undefined) return undefined;
    return { value: peak.bytes, label: `${formatBytes(peak.bytes)} ${peak.measure}`, hollow: false };
  });
  return {
    title: `CPU and memory of the server: ${suffix}`,
    names: data.arms,
    none: "not measured",
    panels: [...cpu, { title: "Peak memory of all processes", bars: memory }],
  };
}

function isHollow(point: Point, { failedParity }: ChartData): boolean {
  return flawsOf(point, failedParity).length > 0;
}

/** Throughput over CPU, a column a request size. */
function scaling(data: ChartData, suffix: string): LineChart {
  const sizes = threeSizes(data.sizes);
  const panel = (bReq: number, of: string, value: (point: Point) => number | null, log: boolean): LinePanel => {
    const inPanel = data.points.filter((point) => point.bReq === bReq);
    const concurrencies = [...new Set(inPanel.map((point) => point.concurrency ?? 0))].sort((a, b) => a - b);
    return {
      title: `B_req ${bReq}: ${of}`,
      xTitle: "callers (C)",
      x: stepScale(concurrencies, String),
      y: yScale(inPanel.map(value), log),
      lines: data.arms.map((arm) =>
        pointsOf(data, arm, bReq).flatMap((point) => {
          const y = value(point);
          return y === null || (log && y <= 0) ? [] : [{ x: point.concurrency ?? 0, y, hollow: isHollow(point, data) }];
        }),
      ),
    };
  };
  return {
    title: `Scaling with callers (C): ${suffix}`,
    names: data.arms,
    rows: [
      sizes.map((bReq) => panel(bReq, "examples/s", (point) => point.examplesPerS, false)),
      sizes.map((bReq) => panel(bReq, "CPU µs an example", (point) => point.serverCpuMicrosPerExample, true)),
    ],
  };
}

function latency(data: ChartData, suffix: string): LineChart {
  return {
    title: `p99 against throughput: ${suffix}`,
    names: data.arms,
    rows: [
      threeSizes(data.sizes).map((bReq) => {
        const inPanel = data.points.filter((point) => point.bReq === bReq);
        return {
          title: `B_req ${bReq}: p99 ms`,
          xTitle: "examples/s",
          x: linearScale(Math.max(...inPanel.map((point) => point.examplesPerS)), 4),
          y: yScale(
            inPanel.map((point) => point.p99Ms),
            true,
          ),
          lines: data.arms.map((arm) =>
            pointsOf(data, arm, bReq).flatMap((point) =>
              point.p99Ms === null || point.p99Ms <= 0
                ? []
                : [{ x: point.examplesPerS, y: point.p99Ms, hollow: isHollow(point, data) }],
            ),
          ),
        };
      }),
    ],
  };
}

function yScale(values: readonly (number | null)[], log: boolean): Scale {
  const positive = values.filter((value) => value !== null && value > 0) as number[];
  if (positive.length === 0) return linearScale(0);
  const max = Math.max(...positive);
  return log ? logScale(Math.min(...positive), max) : linearScale(max);
}

function throughputCsv(data: ChartData): string {
  const rows = data.sizes.flatMap((bReq) =>
    data.arms.map((arm) => {
      const best = bestOf(data, arm, bReq, CHART_BUDGET_MS);
      const point = best?.leftOut === undefined ? best?.point : undefined;
      return [bReq, arm, point?.concurrency ?? "", point?.examplesPerS ?? "", point?.p99Ms ?? ""];
    }),
  );
  return csvOf(["b_req", "arm", "concurrency", "examples_per_s", "p99_ms"], rows);
}

function pointsCsv({ points }: ChartData): string {
  return csvOf(
    ["b_req", "arm", "concurrency", "examples_per_s", "p99_ms", "server_cpu_micros_per_example", "client_bound"],
    points.map((point) => [
      point.bReq,
      point.arm,
      point.concurrency ?? "",
      point.examplesPerS,
      point.p99Ms ?? "",
      point.serverCpuMicrosPerExample ?? "",
      String(point.clientBound),
    ]),
  );
}

function costCsv(data: ChartData): string {
  const rows = data.sizes.flatMap((bReq) =>
    data.arms.map((arm) => {
      const point = bestOf(data, arm, bReq, null)?.point;
      const memory = peakMemory(data, arm);
      return [
        bReq,
        arm,
        point?.concurrency ?? "",
        point?.serverCpuMicrosPerExample ?? "",
        memory?.bytes ?? "",
        memory?.measure ?? "",
      ];
    }),
  );
  return csvOf(
    ["b_req", "arm", "concurrency", "server_cpu_micros_per_example", "peak_memory_bytes", "memory_measure"],
    rows,
  );
}

function csvOf(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cell = (value: string | number): string => {
    const text = String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${[head, ...rows].map((row) => row.map(cell).join(",")).join("\n")}\n`;
}
