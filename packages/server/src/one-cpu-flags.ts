/**
 * Settings of V8 for a process that has one CPU. The collector's helper threads can only take time from the thread that they
 * help; and a young generation of 1 MiB, not grown to 16, stays in the caches, which the tables' rows need, and makes each
 * pause shorter. Both are looked at anew at each collection, so that a process may set them when it starts.
 *
 * Full collections take some 10 ms, and are rare as long as requests leave nothing in the old generation (the benchmark's
 * `heap_promoted_bytes_per_request`). Concurrent marking is left on: in the one run without it there were fewer of them, and a
 * pause of 126 ms, whatever that was.
 */
export function flagsFor(cpus: number): readonly string[] {
  return cpus === 1 ? ["--no-parallel-scavenge", "--semi-space-growth-factor=1"] : [];
}
