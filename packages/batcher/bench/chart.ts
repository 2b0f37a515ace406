import type { GridPoint } from "./grid.ts";

const CELL = { width: 150, height: 120, gap: 26 };
const COLORS = { off: "#9aa0a6", window: "#e08a00", adaptive: "#1a6fd4" } as const;

/** Closed-loop throughput by callers, one panel a device and request size, logarithmic both ways. */
export function chartOf(points: readonly GridPoint[]): string {
  const closed = points.filter(({ load }) => load.kind === "closed");
  const devices = [...new Set(closed.map(({ device }) => device.name))];
  const sizes = [...new Set(closed.map(({ requestSize }) => requestSize))];
  const left = 120;
  const top = 56;
  const width = left + sizes.length * (CELL.width + CELL.gap);
  const height = top + devices.length * (CELL.height + CELL.gap) + 10;
  const parts: string[] = [];
  for (const [row, device] of devices.entries()) {
    const y0 = top + row * (CELL.height + CELL.gap);
    parts.push(text(left - 10, y0 + CELL.height / 2, device, "end"));
    for (const [column, size] of sizes.entries()) {
      const x0 = left + column * (CELL.width + CELL.gap);
      if (row === 0) {
        parts.push(text(x0 + CELL.width / 2, top - 10, `${size} ${size === 1 ? "item" : "items"} a request`, "middle"));
      }
      parts.push(
        panel(
          x0,
          y0,
          closed.filter((point) => point.device.name === device && point.requestSize === size),
        ),
      );
    }
  }
  const legend = Object.entries(COLORS)
    .map(
      ([policy, color], i) =>
        `<rect x="${left + i * 90}" y="10" width="12" height="12" fill="${color}"/>${text(left + 18 + i * 90, 20, policy, "start")}`,
    )
    .join("\n");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">
<title>Simulated closed-loop throughput of the batching policies</title>
<rect width="${width}" height="${height}" fill="#fff"/>
${legend}
${parts.join("\n")}
</svg>
`;
}

function panel(x0: number, y0: number, points: readonly GridPoint[]): string {
  const values = points.flatMap(({ results }) => Object.values(results).map(({ itemsPerS }) => itemsPerS));
  const low = Math.log10(Math.min(...values));
  const high = Math.max(Math.log10(Math.max(...values)), low + 0.1);
  const x = (i: number): number => x0 + (i * CELL.width) / Math.max(1, points.length - 1);
  const y = (value: number): number => y0 + CELL.height - ((Math.log10(value) - low) / (high - low)) * CELL.height;
  const lines = (Object.keys(COLORS) as (keyof typeof COLORS)[]).map((policy) => {
    const path = points
      .map(({ results }, i) => `${x(i).toFixed(1)},${y(results[policy].itemsPerS).toFixed(1)}`)
      .join(" ");
    return `<polyline points="${path}" fill="none" stroke="${COLORS[policy]}" stroke-width="2"/>`;
  });
  const ticks = points.map(({ loadName }, i) =>
    text(x(i), y0 + CELL.height + 12, loadName.replace("C=", ""), "middle"),
  );
  return [
    `<rect x="${x0}" y="${y0}" width="${CELL.width}" height="${CELL.height}" fill="none" stroke="#ddd"/>`,
    text(x0 + 3, y0 + 11, `${short(10 ** high)}/s`, "start"),
    text(x0 + 3, y0 + CELL.height - 4, `${short(10 ** low)}/s`, "start"),
    ...lines,
    ...ticks,
  ].join("\n");
}

function text(x: number, y: number, content: string, anchor: string): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" fill="#444">${content}</text>`;
}

export function short(value: number): string {
  return value >= 1e6
    ? `${(value / 1e6).toFixed(2)} M`
    : value >= 1e3
      ? `${(value / 1e3).toFixed(1)} k`
      : value.toFixed(0);
}
