/**
 * Settings of V8 for a process that has one CPU. The collector's helper threads can only take time from the thread that they
 * help; and a young generation of 1 MiB, not grown to 16, stays in the caches, which the tables' rows need, and makes each
 * pause shorter. Both are looked at anew at each collection, so that a process may set them when it starts.
 *
 * Full collections mark on helper threads, which share the CPU with the thread that they help, so that it falls some 50 ms behind. The
 * old generation may grow to 11 times what a collection left before the next one (a server's 21 MB to some 230): requests leave
 * nothing there (the benchmark's `heap_promoted_bytes_per_request`), and in an open loop of half a minute there were none instead
 * of two. Concurrent marking is left on: without it, a collection stops the thread for as long as it takes.
 */
export function flagsFor(cpus: number): readonly string[] {
  return cpus === 1 ? ["--no-parallel-scavenge", "--semi-space-growth-factor=1", "--heap-growing-percent=1000"] : [];
}
