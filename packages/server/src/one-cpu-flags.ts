/**
 * Settings of V8 for a process that has one CPU. The collector's helper threads can only take time from the thread that they
 * help: requests wait some 40 ms for those that mark. Both are looked at anew at each collection, so that a process may set
 * them when it starts.
 *
 * The young generation must be free to grow: in one of 1 MiB requests that wait a little longer outlive two collections, fill
 * the old generation, and bring on a full collection every few seconds.
 */
export function flagsFor(cpus: number): readonly string[] {
  return cpus === 1 ? ["--no-parallel-scavenge", "--no-concurrent-marking"] : [];
}
