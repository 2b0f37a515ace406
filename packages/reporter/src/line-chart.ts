import type { Scale } from "./scale.ts";
import { element, markElement, type Palette, seriesColor, svgDocument, textElement } from "./svg.ts";

export interface Mark {
  readonly x: number;
  readonly y: number;
  /** Drawn hollow: it wins no comparison. */
  readonly hollow: boolean;
}

export interface LinePanel {
  readonly title: string;
  readonly xTitle: string;
  readonly x: Scale;
  readonly y: Scale;
  /** One line a name, in the order of the names. */
  readonly lines: readonly (readonly Mark[])[];
}

export interface LineChart {
  readonly title: string;
  readonly names: readonly string[];
  /** Panels beside each other. */
  readonly rows: readonly (readonly LinePanel[])[];
}

const WIDTH = 880;
const LEGEND_COLUMNS = 4;
const LEGEND_TOP = 54;
const PLOT_HEIGHT = 220;
const PANEL_HEIGHT = PLOT_HEIGHT + 96;

/** A legend over a grid of panels. */
export function drawLines({ title, names, rows }: LineChart, palette: Palette): string {
  const body = [textElement({ x: 20, y: 32, "font-size": 18, "font-weight": 600, fill: palette.text }, title)];
  for (const [index, name] of names.entries()) {
    const x = 20 + (index % LEGEND_COLUMNS) * 210;
    const y = LEGEND_TOP + Math.floor(index / LEGEND_COLUMNS) * 22;
    body.push(
      markElement(index, x + 7, y + 7, 6, { fill: seriesColor(palette, index) }),
      textElement({ x: x + 20, y: y + 12, fill: palette.text }, name),
    );
  }
  const gridTop = LEGEND_TOP + Math.ceil(names.length / LEGEND_COLUMNS) * 22 + 34;
  for (const [row, panels] of rows.entries()) {
    const panelWidth = (WIDTH - 20) / panels.length;
    for (const [column, panel] of panels.entries()) {
      const left = 20 + column * panelWidth + 44;
      body.push(...drawPanel(panel, { left, top: gridTop + row * PANEL_HEIGHT, width: panelWidth - 70 }, palette));
    }
  }
  const height = gridTop + rows.length * PANEL_HEIGHT - 10;
  if (rows.flat(2).some(({ lines }) => lines.flat().some((mark) => mark.hollow))) {
    body.push(
      textElement(
        { x: 20, y: height - 12, "font-size": 12, fill: palette.muted },
        "Hollow marks: the load generator was the limit, or there were errors.",
      ),
    );
  }
  return svgDocument(WIDTH, height, title, palette, body);
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
}

function drawPanel(panel: LinePanel, { left, top, width }: Box, palette: Palette): string[] {
  const x = (value: number): number => left + panel.x.position(value) * width;
  const y = (value: number): number => top + PLOT_HEIGHT * (1 - panel.y.position(value));
  const small = { "font-size": 12, fill: palette.muted };
  const body = [textElement({ x: left, y: top - 14, "font-weight": 600, fill: palette.text }, panel.title)];
  for (const { value, label } of panel.y.ticks) {
    body.push(
      element("line", { x1: left, x2: left + width, y1: y(value), y2: y(value), stroke: palette.grid }),
      textElement({ x: left - 6, y: y(value) + 4, "text-anchor": "end", ...small }, label),
    );
  }
  for (const { value, label } of panel.x.ticks) {
    body.push(textElement({ x: x(value), y: top + PLOT_HEIGHT + 20, "text-anchor": "middle", ...small }, label));
  }
  body.push(
    textElement({ x: left + width / 2, y: top + PLOT_HEIGHT + 38, "text-anchor": "middle", ...small }, panel.xTitle),
  );
  for (const [index, marks] of panel.lines.entries()) {
    const stroke = seriesColor(palette, index);
    if (marks.length > 1) {
      const points = marks.map((mark) => `${x(mark.x).toFixed(1)},${y(mark.y).toFixed(1)}`).join(" ");
      body.push(element("polyline", { points, fill: "none", stroke, "stroke-width": 2 }));
    }
    for (const mark of marks) {
      const fill = mark.hollow ? palette.background : stroke;
      body.push(markElement(index, x(mark.x), y(mark.y), 4.5, { fill, stroke, "stroke-width": 2 }));
    }
  }
  return body;
}
