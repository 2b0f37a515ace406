export type Theme = "light" | "dark";

export interface Palette {
  readonly background: string;
  readonly text: string;
  readonly muted: string;
  readonly grid: string;
  /** Colour of an arm by its position among the arms of the chart. */
  readonly series: readonly string[];
}

/** Colours that stay apart for the common forms of colour blindness, with enough contrast on their background. */
export const PALETTES: Readonly<Record<Theme, Palette>> = {
  light: {
    background: "#ffffff",
    text: "#1f2328",
    muted: "#59636e",
    grid: "#d1d9e0",
    series: ["#0b62a8", "#2f9bd8", "#6a51c7", "#c2410c", "#b7791f", "#a8326e", "#7a4a2b", "#1a7f5a"],
  },
  dark: {
    background: "#0d1117",
    text: "#f0f6fc",
    muted: "#9198a1",
    grid: "#3d444d",
    series: ["#58a6ff", "#79d0f5", "#b19cff", "#ff8f57", "#e3b341", "#f778ba", "#c69a78", "#4ad0a0"],
  },
};

type Attributes = Readonly<Record<string, string | number | undefined>>;

/** One element; numbers are rounded to a tenth, so that the same data gives the same text. */
export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const list = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}="${escapeText(typeof value === "number" ? round(value) : String(value))}"`)
    .join("");
  return children.length === 0 ? `<${name}${list}/>` : `<${name}${list}>${children.join("")}</${name}>`;
}

export function textElement(attributes: Attributes, content: string): string {
  return element("text", attributes, escapeText(content));
}

export function seriesColor(palette: Palette, index: number): string {
  return palette.series[index % palette.series.length] ?? palette.text;
}

/** A mark whose shape, like its colour, tells which series it belongs to. */
export function markElement(index: number, x: number, y: number, radius: number, attributes: Attributes): string {
  const at = (...corners: readonly (readonly [number, number])[]): string =>
    corners.map(([dx, dy]) => `${round(x + dx * radius)},${round(y + dy * radius)}`).join(" ");
  switch (index % 4) {
    case 0:
      return element("circle", { cx: x, cy: y, r: radius, ...attributes });
    case 1:
      return element("polygon", { points: at([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]), ...attributes });
    case 2:
      return element("polygon", { points: at([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]), ...attributes });
    default:
      return element("polygon", { points: at([0, -1.15], [1.15, 0.9], [-1.15, 0.9]), ...attributes });
  }
}

export function svgDocument(
  width: number,
  height: number,
  title: string,
  palette: Palette,
  body: readonly string[],
): string {
  return `${element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "font-family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
      "font-size": 14,
    },
    element("title", {}, escapeText(title)),
    element("rect", { width, height, fill: palette.background }),
    ...body,
  )}\n`;
}

/** Round numbers from 0 to at least `max`, about `count` of them. */
export function ticks(max: number, count: number): number[] {
  if (!(max > 0)) return [0, 1];
  const rough = max / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => power * factor >= rough) ?? 10);
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(12)));
}

/** `1.5k`, `20k`, `3M`. */
export function shortNumber(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1000) return `${Number((value / 1000).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
