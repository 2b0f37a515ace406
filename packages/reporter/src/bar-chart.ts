import { element, type Palette, seriesColor, svgDocument, textElement } from "./svg.ts";

export interface Bar {
  readonly value: number;
  readonly label: string;
  /** Drawn hollow: it wins no comparison. */
  readonly hollow: boolean;
}

export interface BarPanel {
  readonly title: string;
  /** One a name; undefined draws `none` instead. */
  readonly bars: readonly (Bar | undefined)[];
}

export interface BarChart {
  readonly title: string;
  /** Names of the bars, the same in every panel. */
  readonly names: readonly string[];
  /** What stands in place of a bar that there is none of. */
  readonly none: string;
  readonly panels: readonly BarPanel[];
}

const WIDTH = 880;
const LABEL_WIDTH = 150;
const VALUE_WIDTH = 190;
const ROW_HEIGHT = 28;

/** Panels under each other, one bar a name; each panel has its own scale, since sizes differ by orders of magnitude. */
export function drawBars({ title, names, none, panels }: BarChart, palette: Palette): string {
  const panelHeight = 30 + names.length * ROW_HEIGHT + 14;
  const body = [textElement({ x: 20, y: 32, "font-size": 18, "font-weight": 600, fill: palette.text }, title)];
  for (const [index, panel] of panels.entries()) {
    const top = 52 + index * panelHeight;
    const max = Math.max(1e-9, ...panel.bars.map((bar) => bar?.value ?? 0));
    body.push(textElement({ x: 20, y: top + 16, "font-weight": 600, fill: palette.text }, panel.title));
    for (const [row, name] of names.entries()) {
      const y = top + 30 + row * ROW_HEIGHT;
      const bar = panel.bars[row];
      const width = ((bar?.value ?? 0) / max) * (WIDTH - LABEL_WIDTH - VALUE_WIDTH - 20);
      const color = seriesColor(palette, row);
      const solid = bar?.hollow !== true;
      body.push(
        textElement({ x: LABEL_WIDTH - 10, y: y + 16, "text-anchor": "end", fill: palette.text }, name),
        element("rect", {
          x: LABEL_WIDTH,
          y,
          width,
          height: ROW_HEIGHT - 6,
          rx: 3,
          fill: solid ? color : "none",
          stroke: solid ? undefined : color,
        }),
        textElement(
          { x: LABEL_WIDTH + width + 8, y: y + 16, fill: solid && bar !== undefined ? palette.text : palette.muted },
          bar?.label ?? none,
        ),
      );
    }
  }
  return svgDocument(WIDTH, 52 + panels.length * panelHeight + 8, title, palette, body);
}
