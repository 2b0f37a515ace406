/** `nx run embedding:bench`: measures the kernels against NumPy, plain loops and the memory itself; see `--help`. */
import { spawnSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Child } from "./child.ts";
import { writeDocs } from "./docs.ts";
import { FIGURES, ratiosOf, resultOf } from "./figures.ts";
import type { FigureName } from "./figures.ts";
import { ResultsFile } from "./results-file.ts";
import { prepareTableFile } from "./table-file.ts";
import { DIM, HOT_SIZES } from "./workload.ts";

const HELP = `Measures gathering, all ratios within one run, medians of alternating repeats.

  --work-dir DIR     where table files are made and kept        (bench-work/embedding)
  --out FILE         where the figures go                       (bench-results/embedding.json)
  --max-rows N       rows of the largest tables                 (850000: 3.2 GB)
  --seconds S        length of one measurement                  (1)
  --repeats N        measurements of each kind                  (3)
  --python PATH      interpreter with NumPy                     (DLRM_PYTHON, or the tests' environment, or python3)
  --only A,B         only these figures; those in FILE stay
  --docs             measure nothing, but write the README's table and charts of the figures in FILE
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
    docs: { type: "boolean", default: false },
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
for (const name of only) {
  if (!Object.hasOwn(FIGURES, name)) {
    console.error(`--only names ${name}, expected some of ${Object.keys(FIGURES).join(", ")}`);
    process.exit(2);
  }
}
const results = await ResultsFile.open(flags.out, only.size > 0 || flags.docs);

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

/** Runs all measures in turn, `repeats` times, every second time backwards, and keeps what they give, in `unit`. */
async function alternate<Name extends string>(
  unit: string,
  measures: Readonly<Record<Name, Measure>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(measures) as Name[];
  const samples = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const name of repeat % 2 === 0 ? names : [...names].reverse()) {
      const value = await measures[name]();
      samples[name].push(value);
      progress(`  ${name}: ${value.toPrecision(4)} ${unit} (${repeat + 1} of ${repeats})`);
    }
  }
  for (const name of names) if (!Object.hasOwn(FIGURES, name)) results.set(resultOf(name, unit, samples[name]));
  return samples;
}

function report(name: FigureName, samples: readonly number[]): void {
  results.set(resultOf(name, FIGURES[name].unit, samples));
}

function reportMissing(missing: string, ...names: FigureName[]): void {
  for (const name of names) results.miss(name, missing);
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
  results.note(kernel, ready.kernel);
  return { child: started.child, ...ready };
}

async function startNumpy(python: string, file: string): Promise<Child> {
  progress("starting NumPy");
  const { child, ready } = await Child.start("numpy", python, [path.join(here, "numpy_variant.py"), file]);
  results.note("numpy", (ready as { numpy: string }).numpy);
  return child;
}

const gathers =
  (child: Child, batch: number, threads = 1): Measure =>
  () =>
    child.ask({ kind: "gather", batch, seconds, threads });

const EXAMPLES = "examples/s";

async function measureAgainstNumpy(
  child: Child,
  kernel: "native" | "wasm",
  file: string,
  python: string | undefined,
  batches: readonly (1 | 16 | 128)[],
): Promise<void> {
  const figureOf = (batch: 1 | 16 | 128) => `${kernel}_vs_numpy_b${batch}` as FigureName;
  if (python === undefined) {
    reportMissing("no Python with NumPy", ...batches.map(figureOf));
    return;
  }
  const numpy = await startNumpy(python, file);
  for (const batch of batches) {
    const [ours, theirs] = [
      `${kernel}_b${batch}`,
      `numpy_${kernel === "wasm" ? "beside_wasm_" : ""}b${batch}`,
    ] as const;
    const samples = await alternate(EXAMPLES, {
      [ours]: gathers(child, batch),
      [theirs]: () => numpy.ask({ batch, seconds }),
    });
    report(figureOf(batch), ratiosOf(samples[ours] ?? [], samples[theirs] ?? []));
  }
  await numpy.stop();
}

async function measureAgainstMemory(child: Child, baselineFile: string): Promise<void> {
  const baseline = (await Child.start("baseline", baselineFile, [String(maxRows)])).child;
  const ask = (what: string, threads: number) => () => baseline.ask([what, seconds, threads]);
  const exampleBytes = HOT_SIZES.reduce((sum, hotSize) => sum + hotSize, 0) * DIM * 4;
  const inExamples = (measure: Measure) => async () => (await measure()) / exampleBytes;
  const {
    native_one: one,
    native_two: two,
    ...memory
  } = await alternate(EXAMPLES, {
    native_one: gathers(child, 16),
    plain_loop_one: ask("plain", 1),
    random_read_one: ask("random", 1),
    sequential_read_one: inExamples(ask("sequential", 1)),
    native_two: gathers(child, 16, 2),
    plain_loop_two: ask("plain", 2),
    random_read_two: ask("random", 2),
    sequential_read_two: inExamples(ask("sequential", 2)),
  });
  report("native_vs_plain_loop", ratiosOf(one, memory.plain_loop_one));
  report("native_vs_sequential_read", ratiosOf(one, memory.sequential_read_one));
  report("random_read_vs_sequential_read", ratiosOf(memory.random_read_one, memory.sequential_read_one));
  report("native_vs_random_read", ratiosOf(one, memory.random_read_one));
  report("two_cores_vs_one", ratiosOf(two, one));
  report("plain_two_cores_vs_one", ratiosOf(memory.plain_loop_two, memory.plain_loop_one));
  report("random_two_cores_vs_one", ratiosOf(memory.random_read_two, memory.random_read_one));
  report("sequential_two_cores_vs_one", ratiosOf(memory.sequential_read_two, memory.sequential_read_one));
  await baseline.stop();
}

const OF_MEMORY = [
  "native_vs_plain_loop",
  "native_vs_sequential_read",
  "random_read_vs_sequential_read",
  "native_vs_random_read",
  "two_cores_vs_one",
  "plain_two_cores_vs_one",
  "random_two_cores_vs_one",
  "sequential_two_cores_vs_one",
] as const;

/** Figures of one process with the tables in memory. */
async function measureNative(file: string, python: string | undefined, baselineFile: string | undefined) {
  const { child } = await startGather(file, "native");
  const batches = ([1, 16, 128] as const).filter((batch) => wants(`native_vs_numpy_b${batch}`));
  if (batches.length > 0) await measureAgainstNumpy(child, "native", file, python, batches);
  if (wants(...OF_MEMORY)) {
    if (baselineFile === undefined) reportMissing("cargo could not build the baseline", ...OF_MEMORY);
    else await measureAgainstMemory(child, baselineFile);
  }
  if (wants("call_overhead_us")) {
    const { call_overhead_us: samples } = await alternate("µs", {
      call_overhead_us: () => child.ask({ kind: "call", seconds }),
    });
    report("call_overhead_us", samples);
  }
  if (wants("int8_vs_float32")) {
    const int8 = await startGather(await prepareTableFile(flags["work-dir"], maxRows, "int8"), "native");
    const samples = await alternate(EXAMPLES, { int8: gathers(int8.child, 16), float32: gathers(child, 16) });
    report("int8_vs_float32", ratiosOf(samples.int8, samples.float32));
    await int8.child.stop();
  }
  await child.stop();
}

/** In a process that has measured nothing else: what that left behind would count too. */
async function measurePss(file: string) {
  if (process.platform !== "linux") {
    reportMissing("PSS is Linux's", "pss_over_tables_mib");
    return;
  }
  const { child } = await startGather(file, "native");
  const { pss_over_tables_mib: samples } = await alternate("MiB", {
    pss_over_tables_mib: () => child.ask({ kind: "pss", threads: 8 }),
  });
  report("pss_over_tables_mib", samples);
  await child.stop();
}

const opens = (file: string, mode: "memory" | "mmap") => async () => {
  const store = await startGather(file, "native", mode);
  await store.child.stop();
  return store.openSeconds;
};

/** Figures of opening a store, each in a process of its own. */
async function measureOpening(file: string, baselineFile: string | undefined) {
  if (wants("load_vs_read")) {
    if (baselineFile === undefined) reportMissing("cargo could not build the baseline", "load_vs_read");
    else {
      const threads = Math.max(4, 2 * availableParallelism());
      const read = async () => {
        const reader = (await Child.start("reader", baselineFile, ["0"])).child;
        const took = await reader.ask(["read", file, threads]);
        await reader.stop();
        return took;
      };
      // Now the file is in the page cache.
      await read();
      const samples = await alternate("s", { load: opens(file, "memory"), read });
      report("load_vs_read", ratiosOf(samples.load, samples.read));
    }
  }
  if (wants("mmap_ready_s")) {
    const { mmap_ready_s: samples } = await alternate("s", { mmap_ready_s: opens(file, "mmap") });
    report("mmap_ready_s", samples);
  }
}

async function main(): Promise<void> {
  const file = await prepareTableFile(flags["work-dir"], maxRows, "float32");
  const python = findPython();
  const baselineFile = buildBaseline();
  const others = new Set<string>([
    "pss_over_tables_mib",
    "load_vs_read",
    "mmap_ready_s",
    "wasm_vs_numpy_b1",
    "wasm_vs_numpy_b128",
  ]);
  if (wants(...(Object.keys(FIGURES) as FigureName[]).filter((name) => !others.has(name)))) {
    await measureNative(file, python, baselineFile);
  }
  if (wants("pss_over_tables_mib")) await measurePss(file);
  await measureOpening(file, baselineFile);
  const batches = ([1, 128] as const).filter((batch) => wants(`wasm_vs_numpy_b${batch}`));
  if (batches.length > 0) {
    const { child } = await startGather(file, "wasm");
    await measureAgainstNumpy(child, "wasm", file, python, batches);
    await child.stop();
  }
  results.note("cpu", cpus()[0]?.model ?? "unknown");
  results.note("cpus", String(availableParallelism()));
  results.note("memory", `${(totalmem() / 2 ** 30).toFixed(0)} GiB`);
  results.note("node", process.version);
  results.note("settings", `${maxRows.toLocaleString("en")} rows × ${DIM} float32 each, ${seconds} s a measurement`);
  console.log(await results.write());
}

if (flags.docs) await writeDocs(results, path.resolve(here, ".."));
else await main();
