import { loadPjrtNative } from "./pjrt-native.ts";

/** The shortest that Linux takes. */
const SLICE_MICROS = 100;

/**
 * Asks the system to run the calling thread soon after it wakes, also where other threads are busy on its CPU: a thread that sleeps while
 * a device works, and then has little to do, should not wait until theirs have had their slice (some milliseconds) while the device idles.
 * Not for a device of the CPU, whose thread is as busy as they are. Its share of the CPU stays what it is.
 *
 * Linux 6.12 and later, by `sched_setattr`: of threads that may run, the one with the earlier virtual deadline does, which is one slice
 * away. Needs no privilege. Elsewhere, and without the native binding, nothing is changed. Returns the slice, microseconds, or 0.
 */
export function wakesSoon(platform: string): number {
  if (platform === "cpu" || process.platform !== "linux") return 0;
  const native = loadPjrtNative();
  return "binding" in native ? native.binding.setThreadSlice(SLICE_MICROS) : 0;
}
