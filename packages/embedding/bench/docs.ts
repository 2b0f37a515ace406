import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { drawChart } from "./chart.ts";
import { FIGURES, reaches } from "./figures.ts";
import type { Aim, FigureName } from "./figures.ts";
import type { ResultsFile } from "./results-file.ts";

const START = "<!-- figures: made by `nx run embedding:bench -- --docs`; do not edit -->";
const END = "<!-- end of figures -->";

/** Writes the README's table, and the charts in light and dark beside it, from results. */
export async function writeDocs(results: ResultsFile, packageDir: string): Promise<void> {
  await mkdir(path.join(packageDir, "docs"), { recursive: true });
  const bars = (prefix: string) => [1, 16, 128].map((batch) => results.get(`${prefix}b${batch}`)?.value);
  const series = { native: bars("native_"), NumPy: bars("numpy_"), WebAssembly: bars("wasm_") };
  for (const theme of ["light", "dark"] as const) {
    const file = path.join(packageDir, `docs/gather.${theme}.svg`);
    await writeFile(file, drawChart("Examples a second of one core", ["1 a call", "16", "128"], series, theme));
  }
  const readme = path.join(packageDir, "README.md");
  const text = await readFile(readme, "utf8");
  const [before, rest = ""] = text.split(START);
  const [, after = ""] = rest.split(END);
  if (before === undefined || rest === "" || after === "") throw new Error(`${readme} has no place for figures`);
  await writeFile(readme, `${before}${START}\n\n${figuresText(results)}\n${END}${after}`);
}

function figuresText(results: ResultsFile): string {
  const { environment } = results;
  const rows = (Object.entries(FIGURES) as [FigureName, Aim][]).map(([name, aim]) => {
    const result = results.get(name);
    const value = result === undefined ? "not measured" : withUnit(result.value, aim.unit);
    const spread =
      result === undefined ? "" : `${round(Math.min(...result.samples))} … ${round(Math.max(...result.samples))}`;
    const missed = result !== undefined && !reaches(aim, result.value) ? " (missed)" : "";
    return `| ${aim.what} (\`${name}\`) | ${value}${missed} | ${spread} | ${aimText(aim)} |`;
  });
  const { cpus, cpu, memory, node, native, numpy, settings } = environment;
  const repeats = (Object.keys(FIGURES) as FigureName[]).flatMap((name) => results.get(name)?.samples.length ?? []);
  const [fewest, most] = [Math.min(...repeats), Math.max(...repeats)];
  return `Measured on ${cpus} cores of an ${cpu} with ${memory}; Node ${node}, kernel \`${native}\`, NumPy ${numpy}. 26 tables, at most
${settings}, ${fewest === most ? most : `${fewest} to ${most}`} repeats; 214 random rows an example. Figures are medians.

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="docs/gather.dark.svg">
  <img alt="Examples a second of one core: native kernel, NumPy and WebAssembly at 1, 16 and 128 examples a call" src="docs/gather.light.svg">
</picture>

| what | figure | least and most | aim |
| --- | ---: | ---: | ---: |
${rows.join("\n")}
`;
}

function withUnit(value: number, unit: string): string {
  return unit === "ratio" ? `${round(value)}×` : `${round(value)} ${unit}`;
}

function round(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function aimText({ atLeast, atMost }: Aim): string {
  if (atLeast !== undefined) return `≥ ${atLeast}`;
  return atMost === undefined ? "" : `≤ ${atMost}`;
}
