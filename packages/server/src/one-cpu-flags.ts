/**
 * Settings of V8 for a process that has one CPU. The collector's helper threads can only take time from the thread that they
 * help; and a young generation of 1 MiB, not grown to 16, stays in the caches, which the tables' rows need, and makes each
 * pause shorter. Both are looked at anew at each collection, so that a process may set them when it starts.
 *
 * That size has a price: requests that wait outlive two collections, so that a full one is due every few seconds, some 10 ms
 * long. Without concurrent marking there are fewer, but one of them took 126 ms.
 */
export function flagsFor(cpus: number): readonly string[] {
  return cpus === 1 ? ["--no-parallel-scavenge", "--semi-space-growth-factor=1"] : [];
}
