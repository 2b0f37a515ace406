/** The figures the bench reports, and what each must reach. Ratios are of two things measured in one run. */
export const FIGURES = {
  native_vs_numpy_b1: { unit: "ratio", atLeast: 6, what: "native kernel against NumPy, 1 example a call" },
  native_vs_numpy_b16: { unit: "ratio", atLeast: 2.3, what: "native kernel against NumPy, 16 examples a call" },
  native_vs_numpy_b128: { unit: "ratio", atLeast: 2.6, what: "native kernel against NumPy, 128 examples a call" },
  native_vs_plain_loop: {
    unit: "ratio",
    atLeast: 1.1,
    what: "native kernel against a plain vector loop (AVX-512 or AVX2, whichever the CPU has) without prefetch",
  },
  native_vs_sequential_read: {
    unit: "ratio",
    atLeast: 0.65,
    what: "native kernel against a sequential read, in bytes of rows",
  },
  random_read_vs_sequential_read: {
    unit: "ratio",
    what: "reads of random rows that add nothing, with the best prefetch of those tried, against a sequential read",
  },
  native_vs_random_read: { unit: "ratio", what: "native kernel against such reads of random rows" },
  two_cores_vs_one: { unit: "ratio", atLeast: 1.8, what: "two threads against one: native kernel" },
  random_two_cores_vs_one: { unit: "ratio", what: "two threads against one: such reads of random rows" },
  sequential_two_cores_vs_one: { unit: "ratio", what: "two threads against one: sequential reads" },
  plain_two_cores_vs_one: { unit: "ratio", what: "two threads against one: the plain loop" },
  wasm_vs_numpy_b1: { unit: "ratio", atLeast: 1, what: "WebAssembly kernel against NumPy, 1 example a call" },
  wasm_vs_numpy_b128: { unit: "ratio", atLeast: 0.8, what: "WebAssembly kernel against NumPy, 128 examples a call" },
  call_overhead_us: { unit: "µs", atMost: 2, what: "a native call that gathers one row of one element" },
  int8_vs_float32: { unit: "ratio", atLeast: 1.5, what: "native kernel, int8 rows against float32 rows" },
  pss_over_tables_mib: { unit: "MiB", atMost: 300, what: "process with 8 gathering threads, beyond the tables" },
  load_vs_read: { unit: "ratio", atMost: 1.3, what: "opening a store against reading the file with as many threads" },
  mmap_ready_s: { unit: "s", atMost: 1, what: "opening a store in mode mmap" },
} as const satisfies Record<string, { unit: string; what: string; atLeast?: number; atMost?: number }>;

export type FigureName = keyof typeof FIGURES;

/** What is known of a figure by its name. */
export interface Aim {
  readonly unit: string;
  readonly what: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** One result: a figure, or a measurement that figures are made of. */
export interface Result {
  readonly name: string;
  /** The median of `samples`. */
  readonly value: number;
  readonly unit: string;
  /** In the order they were measured. */
  readonly samples: readonly number[];
}

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** A result of its samples. */
export function resultOf(name: string, unit: string, samples: readonly number[]): Result {
  return { name, value: median(samples), unit, samples };
}

/** Ratios of measurements that were made in the same round, times `factor`. */
export function ratiosOf(over: readonly number[], under: readonly number[], factor = 1): number[] {
  return over.map((value, at) => (value / (under[at] ?? Number.NaN)) * factor);
}

/** Whether a value reaches what its figure must. */
export function reaches({ atLeast, atMost }: Aim, value: number): boolean {
  return value >= (atLeast ?? Number.NEGATIVE_INFINITY) && value <= (atMost ?? Number.POSITIVE_INFINITY);
}
