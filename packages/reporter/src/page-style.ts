import { PALETTES, type Palette } from "./svg.ts";

function variables(palette: Palette): string {
  const series = palette.series.map((color, index) => `--s${index}: ${color};`).join(" ");
  return `--background: ${palette.background}; --text: ${palette.text}; --muted: ${palette.muted}; --grid: ${palette.grid}; ${series}`;
}

const SERIES = PALETTES.light.series.map((_, index) => `.s${index} { --series: var(--s${index}); }`).join("\n");

/** Style sheet of the page: light or dark as the reader's system is. */
export const PAGE_STYLE: string = `
:root { color-scheme: light dark; ${variables(PALETTES.light)} }
@media (prefers-color-scheme: dark) { :root { ${variables(PALETTES.dark)} } }
${SERIES}
body { margin: 0 auto; max-width: 1080px; padding: 16px 20px 60px; background: var(--background); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; } h2 { font-size: 19px; margin-top: 32px; }
blockquote { margin: 12px 0; padding: 4px 14px; border-left: 4px solid var(--grid); color: var(--muted); }
#controls { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: center;
  padding: 10px 0; background: var(--background); border-bottom: 1px solid var(--grid); }
#controls[hidden] { display: none; }
fieldset { border: 0; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: center; }
legend { float: left; margin-right: 10px; font-weight: 600; }
label, .buttons, .whole { white-space: nowrap; }
label:has(:disabled), :disabled { opacity: 0.5; }
.swatch { display: inline-block; width: 11px; height: 11px; margin: 0 4px; border-radius: 3px; background: var(--series); }
button, select { font: inherit; color: inherit; background: var(--background); border: 1px solid var(--grid); border-radius: 6px; padding: 1px 9px; }
:focus-visible { outline: 3px solid var(--s0); outline-offset: 2px; }
figure { margin: 30px 0 0; overflow-x: auto; padding: 4px; }
figcaption { font-size: 18px; font-weight: 600; margin-bottom: 6px; }
svg { width: 100%; min-width: 640px; height: auto; display: block; }
.detail, figcaption { position: sticky; left: 0; }
svg text { fill: var(--text); font-size: 14px; }
svg .strong { font-weight: 600; } svg .small { fill: var(--muted); font-size: 12px; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--grid); }
svg .line { fill: none; stroke: var(--series); stroke-width: 2; }
svg .mark { fill: var(--series); stroke: var(--series); stroke-width: 2; }
svg .bar { fill: var(--series); stroke: var(--series); }
svg .hollow { fill: var(--background); }
svg .current { stroke: var(--text); stroke-width: 3; }
.detail { min-height: 1.5em; margin: 4px 0 0; color: var(--muted); }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 4px 10px; border: 1px solid var(--grid); text-align: left; } .end { text-align: right; }
pre { overflow-x: auto; padding: 10px; border: 1px solid var(--grid); border-radius: 6px; }
@media print { #controls { display: none; } #charts[hidden], #tables[hidden] { display: block; } }
`;
