/**
 * Settings of V8 for a process that has one CPU. The collector's helper threads can only take time from the thread that they
 * help; and a young generation of 1 MiB, not grown to 16, stays in the caches, which the tables' rows need, and makes each
 * pause shorter. All are looked at anew at each collection, so that a process may set them when it starts.
 *
 * A full collection marks beside the loop for some 30 ms of CPU time, and pauses it for some 10: in an open loop at 80 % of the
 * throughput that is a queue for 100 ms, whose requests outlive collections of the young generation, and bring on the next full
 * one. Requests leave nothing in the old generation otherwise (the benchmark's `heap_promoted_bytes_per_request`). So that one
 * may grow to eleven times of what the last full collection left, some 250 MB: little, next to the tables.
 */
export function flagsFor(cpus: number): readonly string[] {
  return cpus === 1 ? ["--no-parallel-scavenge", "--semi-space-growth-factor=1", "--heap-growing-percent=1000"] : [];
}
