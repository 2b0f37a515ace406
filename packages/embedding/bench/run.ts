/** `nx run embedding:bench`: measures the kernels against NumPy, plain loops and the memory itself; see `--help`. */
import { spawnSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Child } from "./child.ts";
import { FIGURES, median, reaches } from "./figures.ts";
import type { Figure, FigureName } from "./figures.ts";
import { prepareTableFile } from "./table-file.ts";
import { DIM, HOT_SIZES } from "./workload.ts";

const HELP = `Measures gathering, all ratios within one run, medians of alternating repeats.

  --work-dir DIR     where table files are made and kept        (bench-work/embedding)
  --out FILE         where the figures go                       (bench-results/embedding.json)
  --max-rows N       rows of the largest tables                 (850000: 3.2 GB)
  --seconds S        length of one measurement                  (1)
  --repeats N        measurements of each kind                  (3)
  --python PATH      interpreter with NumPy                     (DLRM_PYTHON, or the tests' environment, or python3)
  --only A,B         only these figures
  --help`;

const root = path.resolve(fileURLToPath(import.meta.url), "../../../..");
const here = path.dirname(fileURLToPath(import.meta.url));
const native = path.resolve(here, "../native");

const { values: flags } = parseArgs({
  options: {
    "work-dir": { type: "string", default: path.join(root, "bench-work/embedding") },
    out: { type: "string", default: path.join(root, "bench-results/embedding.json") },
    "max-rows": { type: "string", default: "850000" },
    seconds: { type: "string", default: "1" },
    repeats: { type: "string", default: "3" },
    python: { type: "string" },
    only: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (flags.help) {
  console.log(HELP);
  process.exit(0);
}
const maxRows = positive("max-rows");
const seconds = positive("seconds");
const repeats = positive("repeats");
const only = new Set(flags.only?.split(","));
const figures: Partial<Record<FigureName, Figure>> = {};
const kernels: Record<string, string> = {};

function positive(name: "max-rows" | "seconds" | "repeats"): number {
  const value = Number(flags[name]);
  if (value > 0) return value;
  console.error(`--${name} is ${flags[name]}, expected a number above 0`);
  process.exit(2);
}

function progress(text: string): void {
  console.error(`[${(performance.now() / 1000).toFixed(0)} s] ${text}`);
}

const wants = (...names: FigureName[]): boolean => only.size === 0 || names.some((name) => only.has(name));

/** A measurement that can be repeated. */
type Measure = () => Promise<number>;

/** Runs all measures in turn, `repeats` times, every second time backwards. */
async function alternate<Name extends string>(
  measures: Readonly<Record<Name, Measure>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(measures) as Name[];
  const results = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const name of repeat % 2 === 0 ? names : [...names].reverse()) {
      const value = await measures[name]();
      results[name].push(value);
      progress(`  ${name}: ${value.toPrecision(4)} (${repeat + 1} of ${repeats})`);
    }
  }
  return results;
}

function report(name: FigureName, value: number, measurements: Readonly<Record<string, readonly number[]>>): void {
  figures[name] = { value, ok: reaches(name, value), measurements };
}

function reportRatio<Name extends string>(
  name: FigureName,
  results: Readonly<Record<Name, readonly number[]>>,
  over: Name,
  under: Name,
  factor = 1,
): void {
  const value = (median(results[over]) / median(results[under])) * factor;
  report(name, value, { [over]: results[over], [under]: results[under] });
}

function reportMissing(missing: string, ...names: FigureName[]): void {
  for (const name of names) figures[name] = { missing };
}

function findPython(): string | undefined {
  const cached = globSync("node_modules/.cache/dlrm-python/**/bin/python", { cwd: root }).map((file) =>
    path.join(root, file),
  );
  const places = [flags.python, process.env["DLRM_PYTHON"], ...cached, "python3"];
  return places.find(
    (place) => place !== undefined && spawnSync(place, ["-c", "import numpy"], { stdio: "ignore" }).status === 0,
  );
}

function buildBaseline(): string | undefined {
  const { status } = spawnSync("cargo", ["build", "--release", "--locked", "-q", "--example", "memory_baseline"], {
    cwd: native,
    stdio: ["ignore", "inherit", "inherit"],
  });
  const file = path.join(native, "target/release/examples/memory_baseline");
  return status === 0 && existsSync(file) ? file : undefined;
}

async function startGather(file: string, kernel: "native" | "wasm", mode = "memory") {
  progress(`starting ${kernel} (${mode})`);
  const script = path.join(here, "gather-variant.ts");
  const started = await Child.start(kernel, process.execPath, [
    "--conditions=@dlrm/source",
    script,
    file,
    kernel,
    mode,
  ]);
  const ready = started.ready as { openSeconds: number; kernel: string; tableBytes: number };
  kernels[kernel] = ready.kernel;
  return { child: started.child, ...ready };
}

const gathers =
  (child: Child, batch: number, threads = 1): Measure =>
  () =>
    child.ask({ kind: "gather", batch, seconds, threads });

async function main(): Promise<void> {
  const file = await prepareTableFile(flags["work-dir"], maxRows, "float32");
  const python = findPython();
  const noPython = "no Python with NumPy";
  const baselineFile = buildBaseline();
  const noBaseline = "cargo could not build the baseline";

  const nativeStore = await startGather(file, "native");
  const { child, tableBytes } = nativeStore;
  const exampleBytes = HOT_SIZES.reduce((sum, hotSize) => sum + hotSize, 0) * DIM * 4;

  if (wants("native_vs_numpy_b1", "native_vs_numpy_b16", "native_vs_numpy_b128")) {
    if (python === undefined)
      reportMissing(noPython, "native_vs_numpy_b1", "native_vs_numpy_b16", "native_vs_numpy_b128");
    else {
      progress("native against NumPy");
      const numpy = await startNumpy(python, file);
      for (const batch of [1, 16, 128] as const) {
        const results = await alternate({
          native: gathers(child, batch),
          numpy: () => numpy.ask({ batch, seconds }),
        });
        reportRatio(`native_vs_numpy_b${batch}`, results, "native", "numpy");
      }
      await numpy.stop();
    }
  }
  const ofMemory: FigureName[] = [
    "native_vs_plain_loop",
    "native_vs_sequential_read",
    "two_cores_vs_one",
    "plain_two_cores_vs_one",
  ];
  if (wants(...ofMemory)) {
    if (baselineFile === undefined) reportMissing(noBaseline, ...ofMemory);
    else {
      progress("native against plain loops and sequential reads");
      const baseline = (await Child.start("baseline", baselineFile, [String(maxRows)])).child;
      const results = await alternate({
        native: gathers(child, 16),
        plain: () => baseline.ask(["plain", seconds, 1]),
        sequential: () => baseline.ask(["sequential", seconds, 1]),
        native_two: gathers(child, 16, 2),
        plain_two: () => baseline.ask(["plain", seconds, 2]),
      });
      reportRatio("native_vs_plain_loop", results, "native", "plain");
      reportRatio("native_vs_sequential_read", results, "native", "sequential", exampleBytes);
      reportRatio("two_cores_vs_one", results, "native_two", "native");
      reportRatio("plain_two_cores_vs_one", results, "plain_two", "plain");
      await baseline.stop();
    }
  }
  if (wants("call_overhead_us")) {
    progress("fixed cost of a call");
    const results = await alternate({ call_us: () => child.ask({ kind: "call", seconds }) });
    report("call_overhead_us", median(results.call_us), results);
  }
  if (wants("int8_vs_float32")) {
    progress("int8 against float32");
    const int8 = await startGather(await prepareTableFile(flags["work-dir"], maxRows, "int8"), "native");
    const results = await alternate({ int8: gathers(int8.child, 16), float32: gathers(child, 16) });
    reportRatio("int8_vs_float32", results, "int8", "float32");
    await int8.child.stop();
  }
  if (wants("pss_over_tables_mib")) {
    if (process.platform === "linux") {
      progress("memory of a process with 8 gathering threads");
      const results = await alternate({ mib: () => child.ask({ kind: "pss", threads: 8 }) });
      report("pss_over_tables_mib", median(results.mib), results);
    } else reportMissing("PSS is Linux's", "pss_over_tables_mib");
  }
  await child.stop();

  if (wants("load_vs_read")) {
    if (baselineFile === undefined) reportMissing(noBaseline, "load_vs_read");
    else {
      progress("opening a store against reading the file");
      const threads = Math.max(4, 2 * availableParallelism());
      const results = await alternate({
        open_s: async () => {
          const store = await startGather(file, "native");
          await store.child.stop();
          return store.openSeconds;
        },
        read_s: async () => {
          const reader = (await Child.start("reader", baselineFile, ["0"])).child;
          const took = await reader.ask(["read", file, threads]);
          await reader.stop();
          return took;
        },
      });
      reportRatio("load_vs_read", results, "open_s", "read_s");
    }
  }
  if (wants("mmap_ready_s")) {
    const results = await alternate({
      open_s: async () => {
        const store = await startGather(file, "native", "mmap");
        await store.child.stop();
        return store.openSeconds;
      },
    });
    report("mmap_ready_s", median(results.open_s), results);
  }
  if (wants("wasm_vs_numpy_b1", "wasm_vs_numpy_b128")) {
    if (python === undefined) reportMissing(noPython, "wasm_vs_numpy_b1", "wasm_vs_numpy_b128");
    else {
      progress("WebAssembly against NumPy");
      const numpy = await startNumpy(python, file);
      const wasm = await startGather(file, "wasm");
      for (const batch of [1, 128] as const) {
        const results = await alternate({
          wasm: gathers(wasm.child, batch),
          numpy: () => numpy.ask({ batch, seconds }),
        });
        reportRatio(`wasm_vs_numpy_b${batch}`, results, "wasm", "numpy");
      }
      await Promise.all([wasm.child.stop(), numpy.stop()]);
    }
  }
  await writeResults(tableBytes);
}

async function startNumpy(python: string, file: string): Promise<Child> {
  progress("starting NumPy");
  const { child, ready } = await Child.start("numpy", python, [path.join(here, "numpy_variant.py"), file]);
  kernels["numpy"] = (ready as { numpy: string }).numpy;
  return child;
}

async function writeResults(tableBytes: number): Promise<void> {
  const environment = {
    cpu: cpus()[0]?.model,
    cpuCount: availableParallelism(),
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    kernels,
  };
  const settings = { maxRows, tableBytes, dim: DIM, seconds, repeats };
  await mkdir(path.dirname(flags.out), { recursive: true });
  await writeFile(flags.out, `${JSON.stringify({ schemaVersion: 1, environment, settings, figures }, undefined, 2)}\n`);
  for (const [name, figure] of Object.entries(figures) as [FigureName, Figure][]) {
    const { unit, what }: { unit: string; what: string } = FIGURES[name];
    const text =
      "missing" in figure
        ? `missing: ${figure.missing}`
        : `${figure.value.toPrecision(3)} ${unit}${figure.ok ? "" : " (short of its aim)"}`;
    console.log(`${name.padEnd(28)} ${text.padEnd(32)} ${what}`);
  }
  console.log(`written to ${path.relative(process.cwd(), flags.out)}`);
}

await main();
