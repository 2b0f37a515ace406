import { bestPoint } from "./budgets.ts";
import { formatNumber } from "./format.ts";
import type { Point, Summary } from "./summary.ts";
import { element, PALETTES, type Palette, shortNumber, svgDocument, textElement, type Theme, ticks } from "./svg.ts";

export interface Chart {
  /** File name without theme and extension. */
  readonly name: string;
  readonly title: string;
  readonly svg: Readonly<Record<Theme, string>>;
  /** The chart's data, with a head line. */
  readonly csv: string;
}

const WIDTH = 880;
const BUDGET_MS = 20;

/** The charts of a run; none if nothing was measured in a closed loop. */
export function renderCharts(summary: Summary): Chart[] {
  const points = summary.points.filter((point) => point.mode === "closed");
  if (points.length === 0) return [];
  const arms = [
    ...new Set([...(summary.arms ?? []).map((arm) => arm.arm), ...points.map((point) => point.arm)]),
  ].filter((arm) => points.some((point) => point.arm === arm));
  const sizes = [...new Set(points.map((point) => point.bReq))].sort((a, b) => a - b);
  const suffix = `${summary.preset} on ${summary.platform}${summary.simulatedAccelerator ? ", simulated accelerator" : ""}`;
  const data: ChartData = { points, arms, sizes };
  return [
    chart("throughput", `Throughput at p99 ≤ ${BUDGET_MS} ms: ${suffix}`, data, throughputBars, throughputCsv(data)),
    chart("scaling", `Throughput against callers (C): ${suffix}`, data, scalingLines, scalingCsv(data)),
  ];
}

interface ChartData {
  readonly points: readonly Point[];
  readonly arms: readonly string[];
  readonly sizes: readonly number[];
}

type Draw = (data: ChartData, title: string, palette: Palette) => string;

function chart(name: string, title: string, data: ChartData, draw: Draw, csv: string): Chart {
  return {
    name,
    title,
    svg: { light: draw(data, title, PALETTES.light), dark: draw(data, title, PALETTES.dark) },
    csv,
  };
}

function heading(title: string, palette: Palette): string {
  return textElement({ x: 20, y: 32, "font-size": 18, "font-weight": 600, fill: palette.text }, title);
}

function seriesColor(palette: Palette, index: number): string {
  return palette.series[index % palette.series.length] ?? palette.text;
}

function bestOf({ points }: ChartData, arm: string, bReq: number): Point | undefined {
  return bestPoint(
    points.filter((point) => point.arm === arm && point.bReq === bReq),
    BUDGET_MS,
  );
}

/** The arm's best point within the budget; if only points that comparisons leave out are, the best of those. */
function barOf(
  data: ChartData,
  arm: string,
  bReq: number,
): { readonly examplesPerS: number; readonly leftOut: string | undefined } | undefined {
  const best = bestOf(data, arm, bReq);
  if (best !== undefined) return { examplesPerS: best.examplesPerS, leftOut: undefined };
  const points = data.points.filter((point) => point.arm === arm && point.bReq === bReq);
  const leftOut = bestPoint(points, BUDGET_MS, { clientBound: true, errors: true });
  if (leftOut === undefined) return undefined;
  return { examplesPerS: leftOut.examplesPerS, leftOut: leftOut.clientBound ? ", client-bound" : ", with errors" };
}

/** One panel a request size, one bar an arm, hollow where it wins no comparison; each panel has its own scale, since sizes differ by orders of magnitude. */
function throughputBars(data: ChartData, title: string, palette: Palette): string {
  const { arms, sizes } = data;
  const rowHeight = 28;
  const panelHeight = 30 + arms.length * rowHeight + 14;
  const labelWidth = 150;
  const valueWidth = 190;
  const body = [heading(title, palette)];
  for (const [panel, bReq] of sizes.entries()) {
    const top = 52 + panel * panelHeight;
    const bars = arms.map((arm) => barOf(data, arm, bReq));
    const max = Math.max(1e-9, ...bars.map((bar) => bar?.examplesPerS ?? 0));
    body.push(
      textElement(
        { x: 20, y: top + 16, "font-weight": 600, fill: palette.text },
        `${bReq} ${bReq === 1 ? "example" : "examples"} a request`,
      ),
    );
    for (const [row, arm] of arms.entries()) {
      const y = top + 30 + row * rowHeight;
      const bar = bars[row];
      const width = ((bar?.examplesPerS ?? 0) / max) * (WIDTH - labelWidth - valueWidth - 20);
      const color = seriesColor(palette, row);
      body.push(
        textElement({ x: labelWidth - 10, y: y + 16, "text-anchor": "end", fill: palette.text }, arm),
        element("rect", {
          x: labelWidth,
          y,
          width,
          height: rowHeight - 6,
          rx: 3,
          fill: bar?.leftOut === undefined ? color : "none",
          stroke: bar?.leftOut === undefined ? undefined : color,
        }),
        textElement(
          { x: labelWidth + width + 8, y: y + 16, fill: bar?.leftOut === undefined ? palette.text : palette.muted },
          bar === undefined ? "none within the bound" : `${formatNumber(bar.examplesPerS)} /s${bar.leftOut ?? ""}`,
        ),
      );
    }
  }
  return svgDocument(WIDTH, 52 + sizes.length * panelHeight + 8, title, palette, body);
}

/** One panel a request size, side by side; hollow marks are client-bound points. */
function scalingLines(data: ChartData, title: string, palette: Palette): string {
  const { arms, sizes, points } = data;
  const legendColumns = 4;
  const legendTop = 54;
  const plotTop = legendTop + Math.ceil(arms.length / legendColumns) * 22 + 34;
  const plotHeight = 240;
  const panelWidth = (WIDTH - 20) / sizes.length;
  const body = [heading(title, palette)];
  for (const [index, arm] of arms.entries()) {
    const x = 20 + (index % legendColumns) * 210;
    const y = legendTop + Math.floor(index / legendColumns) * 22;
    body.push(
      element("rect", { x, y, width: 14, height: 14, rx: 3, fill: seriesColor(palette, index) }),
      textElement({ x: x + 20, y: y + 12, fill: palette.text }, arm),
    );
  }
  for (const [panel, bReq] of sizes.entries()) {
    const inPanel = points.filter((point) => point.bReq === bReq);
    const concurrencies = [...new Set(inPanel.map((point) => point.concurrency ?? 0))].sort((a, b) => a - b);
    const leftEdge = 20 + panel * panelWidth + 44;
    const plotWidth = panelWidth - 66;
    const scale = ticks(Math.max(...inPanel.map((point) => point.examplesPerS)), 5);
    const top = scale.at(-1) ?? 1;
    // Callers usually grow by a factor, so that even steps read best.
    const x = (concurrency: number): number => {
      const at = concurrencies.indexOf(concurrency);
      return leftEdge + (concurrencies.length === 1 ? 0.5 : at / (concurrencies.length - 1)) * plotWidth;
    };
    const y = (value: number): number => plotTop + plotHeight * (1 - value / top);
    body.push(
      textElement(
        { x: leftEdge, y: plotTop - 14, "font-weight": 600, fill: palette.text },
        `B_req ${bReq}, examples/s`,
      ),
    );
    for (const tick of scale) {
      body.push(
        element("line", { x1: leftEdge, x2: leftEdge + plotWidth, y1: y(tick), y2: y(tick), stroke: palette.grid }),
        textElement(
          { x: leftEdge - 6, y: y(tick) + 4, "text-anchor": "end", "font-size": 12, fill: palette.muted },
          shortNumber(tick),
        ),
      );
    }
    for (const concurrency of concurrencies) {
      body.push(
        textElement(
          {
            x: x(concurrency),
            y: plotTop + plotHeight + 20,
            "text-anchor": "middle",
            "font-size": 12,
            fill: palette.muted,
          },
          `C ${concurrency}`,
        ),
      );
    }
    for (const [index, arm] of arms.entries()) {
      const line = inPanel
        .filter((point) => point.arm === arm)
        .sort((a, b) => (a.concurrency ?? 0) - (b.concurrency ?? 0));
      if (line.length === 0) continue;
      const stroke = seriesColor(palette, index);
      const at = line.map((point) => ({ x: x(point.concurrency ?? 0), y: y(point.examplesPerS), point }));
      body.push(
        element("polyline", {
          points: at.map((mark) => `${mark.x.toFixed(1)},${mark.y.toFixed(1)}`).join(" "),
          fill: "none",
          stroke,
          "stroke-width": 2.5,
        }),
        ...at.map((mark) =>
          element("circle", {
            cx: mark.x,
            cy: mark.y,
            r: 4,
            fill: mark.point.clientBound ? palette.background : stroke,
            stroke,
            "stroke-width": 2,
          }),
        ),
      );
    }
  }
  const height = plotTop + plotHeight + 62;
  if (points.some((point) => point.clientBound)) {
    body.push(
      textElement(
        { x: 20, y: height - 14, "font-size": 12, fill: palette.muted },
        "Hollow marks: client-bound points.",
      ),
    );
  }
  return svgDocument(WIDTH, height, title, palette, body);
}

function throughputCsv(data: ChartData): string {
  const rows = data.sizes.flatMap((bReq) =>
    data.arms.map((arm) => {
      const best = bestOf(data, arm, bReq);
      return [bReq, arm, best?.concurrency ?? "", best?.examplesPerS ?? "", best?.p99Ms ?? ""];
    }),
  );
  return csvOf(["b_req", "arm", "concurrency", "examples_per_s", "p99_ms"], rows);
}

function scalingCsv({ points }: ChartData): string {
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

function csvOf(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cell = (value: string | number): string => {
    const text = String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${[head, ...rows].map((row) => row.map(cell).join(",")).join("\n")}\n`;
}
