/** The figures the bench reports, and what each must reach. Ratios are of two medians of one run. */
export const FIGURES = {
  native_vs_numpy_b1: { unit: "ratio", atLeast: 6, what: "native kernel against NumPy, 1 example a call" },
  native_vs_numpy_b16: { unit: "ratio", atLeast: 2.3, what: "native kernel against NumPy, 16 examples a call" },
  native_vs_numpy_b128: { unit: "ratio", atLeast: 2.6, what: "native kernel against NumPy, 128 examples a call" },
  native_vs_plain_loop: {
    unit: "ratio",
    atLeast: 1.1,
    what: "native kernel against a plain vector loop without prefetch",
  },
  native_vs_sequential_read: { unit: "ratio", atLeast: 0.65, what: "bytes of rows a second against a sequential read" },
  two_cores_vs_one: { unit: "ratio", atLeast: 1.8, what: "two threads together against one" },
  plain_two_cores_vs_one: { unit: "ratio", what: "the same of the plain loop: what this memory gives" },
  wasm_vs_numpy_b1: { unit: "ratio", atLeast: 1, what: "WebAssembly kernel against NumPy, 1 example a call" },
  wasm_vs_numpy_b128: { unit: "ratio", atLeast: 0.8, what: "WebAssembly kernel against NumPy, 128 examples a call" },
  call_overhead_us: { unit: "µs", atMost: 2, what: "a native call that gathers one row of one element" },
  int8_vs_float32: { unit: "ratio", atLeast: 1.5, what: "native kernel, int8 rows against float32 rows" },
  pss_over_tables_mib: { unit: "MiB", atMost: 300, what: "process with 8 gathering threads, beyond the tables" },
  load_vs_read: { unit: "ratio", atMost: 1.3, what: "opening a store against reading the file with as many threads" },
  mmap_ready_s: { unit: "s", atMost: 1, what: "opening a store in mode mmap" },
} as const satisfies Record<string, { unit: string; what: string; atLeast?: number; atMost?: number }>;

export type FigureName = keyof typeof FIGURES;

/** One figure: its value, the measurements it comes from, or why there is none. */
export type Figure =
  | { readonly value: number; readonly ok: boolean; readonly measurements: Readonly<Record<string, readonly number[]>> }
  | { readonly missing: string };

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Whether a value reaches what its figure must. */
export function reaches(name: FigureName, value: number): boolean {
  const figure: { unit: string; atLeast?: number; atMost?: number } = FIGURES[name];
  return value >= (figure.atLeast ?? Number.NEGATIVE_INFINITY) && value <= (figure.atMost ?? Number.POSITIVE_INFINITY);
}
