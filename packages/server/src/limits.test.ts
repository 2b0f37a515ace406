import { expect, test } from "vitest";
import { resolveLimits } from "./limits.ts";
import type { ModelPlan } from "./model-plan.ts";

const MEBIBYTE = 1024 * 1024;
const plan = { idsPerExample: 3, denseFeatures: 2, inputs: [] } as unknown as ModelPlan;

test.each([
  { messageMebibytes: 1, bytes: 64 * MEBIBYTE },
  { messageMebibytes: 100, bytes: 100 * MEBIBYTE + 5 },
])(
  "a connection has room for a message of $messageMebibytes MiB in its frame, and for 64 MiB",
  ({ messageMebibytes, bytes }) => {
    const limits = resolveLimits({ maxMessageBytes: messageMebibytes * MEBIBYTE }, plan, [64]);
    expect(limits.maxIncompleteBytesPerConnection).toBe(bytes);
  },
);
