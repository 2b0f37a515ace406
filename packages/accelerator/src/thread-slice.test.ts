import { release } from "node:os";
import { expect, test } from "vitest";
import { loadPjrtNative } from "./pjrt-native.ts";
import { wakesSoon } from "./thread-slice.ts";

const [major = 0, minor = 0] = release().split(".").map(Number);
/** Whether the system has slices to ask for. */
const takesSlices = process.platform === "linux" && (major > 6 || (major === 6 && minor >= 12));
const native = loadPjrtNative();

test.skipIf(!("binding" in native))(
  "a thread's slice is what was asked for, on Linux from 6.12 on: skipped without the native binding",
  () => {
    if (!("binding" in native)) throw new Error(native.whyNot);
    const { binding } = native;
    expect([250, 3000].map((micros) => binding.setThreadSlice(micros))).toEqual(takesSlices ? [250, 3000] : [0, 0]);
    expect(wakesSoon("cpu")).toBe(0);
    expect(wakesSoon("sim")).toBe(takesSlices ? 100 : 0);
    // The shortest that there is.
    expect(binding.setThreadSlice(1)).toBe(takesSlices ? 100 : 0);
  },
);
