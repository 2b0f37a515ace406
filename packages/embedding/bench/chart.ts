/** Colours that stay apart for the common forms of colour blindness. */
const PALETTES = {
  light: {
    background: "#ffffff",
    text: "#1f2328",
    muted: "#59636e",
    grid: "#d1d9e0",
    series: ["#0b62a8", "#c2410c", "#1a7f5a"],
  },
  dark: {
    background: "#0d1117",
    text: "#f0f6fc",
    muted: "#9198a1",
    grid: "#3d444d",
    series: ["#58a6ff", "#ff8f57", "#4ad0a0"],
  },
} as const;

const WIDTH = 720;
const HEIGHT = 320;
const PLOT = { left: 70, right: 16, top: 64, bottom: 40 };

/** Groups of bars, one a series in each group; `undefined` values are left out. */
export function drawChart(
  title: string,
  groups: readonly string[],
  series: Readonly<Record<string, readonly (number | undefined)[]>>,
  theme: keyof typeof PALETTES,
): string {
  const palette = PALETTES[theme];
  const names = Object.keys(series);
  const most = Math.max(1, ...Object.values(series).flatMap((values) => values.map((value) => value ?? 0)));
  const step = niceStep(most / 4);
  const top = Math.ceil(most / step) * step;
  const plotHeight = HEIGHT - PLOT.top - PLOT.bottom;
  const y = (value: number) => PLOT.top + plotHeight * (1 - value / top);
  const groupWidth = (WIDTH - PLOT.left - PLOT.right) / groups.length;
  const barWidth = (groupWidth * 0.8) / names.length;
  const parts = [text(PLOT.left, 26, title, palette.text, "start", 16)];
  for (let value = 0; value <= top; value += step) {
    parts.push(`<path d="M${PLOT.left} ${fixed(y(value))}H${WIDTH - PLOT.right}" stroke="${palette.grid}"/>`);
    parts.push(text(PLOT.left - 8, y(value) + 4, value.toLocaleString("en"), palette.muted, "end"));
  }
  for (const [at, name] of names.entries()) {
    const x = PLOT.left + at * 120;
    parts.push(`<rect x="${x}" y="38" width="12" height="12" fill="${palette.series[at % palette.series.length]}"/>`);
    parts.push(text(x + 18, 49, name, palette.text));
    for (const [group, value] of (series[name] ?? []).entries()) {
      if (value === undefined) continue;
      const left = PLOT.left + group * groupWidth + groupWidth * 0.1 + at * barWidth;
      const color = palette.series[at % palette.series.length];
      parts.push(
        `<rect x="${fixed(left)}" y="${fixed(y(value))}" width="${fixed(barWidth - 3)}" height="${fixed(y(0) - y(value))}" fill="${color}"/>`,
        text(
          left + (barWidth - 3) / 2,
          y(value) - 5,
          Math.round(value).toLocaleString("en"),
          palette.text,
          "middle",
          11,
        ),
      );
    }
  }
  for (const [group, name] of groups.entries()) {
    parts.push(text(PLOT.left + (group + 0.5) * groupWidth, HEIGHT - 16, name, palette.text, "middle"));
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12">
<title>${title}</title>
<rect width="${WIDTH}" height="${HEIGHT}" fill="${palette.background}"/>
${parts.join("\n")}
</svg>
`;
}

/** The next of 1, 2, 5, 10, 20, … */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
}

function text(x: number, y: number, content: string, fill: string, anchor = "start", size = 12): string {
  return `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}" fill="${fill}" font-size="${size}">${content}</text>`;
}

function fixed(value: number): string {
  return value.toFixed(1);
}
