import { expect, it } from "vitest";
import { withinLimit } from "./time-limit.ts";

const never = new AbortController().signal;
const limit = { limitS: 3600, signal: never, name: "the work", failure: "load_failed" } as const;

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = (): void => reject(signal.reason as Error);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp);
  });
}

it("settles as the work does", async () => {
  await expect(withinLimit(limit, async () => 7)).resolves.toBe(7);
  await expect(withinLimit(limit, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
});

it("tells the work to end when its time is over, or the run is stopped", async () => {
  await expect(withinLimit({ ...limit, limitS: 0 }, untilAborted)).rejects.toMatchObject({
    code: "load_failed",
    message: "the work gave no result within 0 s",
  });
  await expect(
    withinLimit({ ...limit, signal: AbortSignal.abort(new Error("stopped")) }, untilAborted),
  ).rejects.toThrow("stopped");
});
