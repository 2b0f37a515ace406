import { describe, expect, test } from "vitest";
import { AdaptivePolicy } from "./adaptive-policy.ts";
import { BatchSizes } from "./batch-sizes.ts";
import { CostModel } from "./cost-model.ts";
import type { FlushDecision } from "./flush-policy.ts";

const RUN_MS = 10;
const CALLERS = 4;

/** Of a device whose batches take 10 ms whatever their size, and four callers of whom one is back after 0.5 ms, the others after 1 ms. */
function taught(latencyBudgetMs: number): AdaptivePolicy {
  const cost = new CostModel();
  for (const size of [1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8]) {
    cost.observe(size, RUN_MS);
  }
  const policy = new AdaptivePolicy(cost, 64, new BatchSizes(undefined), "minimizeCost", latencyBudgetMs);
  for (let atMs = 0; atMs < 400; atMs += 20) {
    policy.answered(atMs, CALLERS);
    policy.arrived(atMs + 0.5, 1, 1);
    policy.arrived(atMs + 1, 3, 3);
  }
  return policy;
}

/** All are answered at 400 ms, the first is back, and there is room. */
function decideForFirst(policy: AdaptivePolicy, nowMs = 400.5): FlushDecision {
  return policy.decide({ nowMs, items: 1, size: 1, oldestArrivalMs: 400.5, roomSinceMs: 400 });
}

function firstIsBack(latencyBudgetMs: number): AdaptivePolicy {
  const policy = taught(latencyBudgetMs);
  policy.answered(400, CALLERS);
  policy.arrived(400.5, 1, 1);
  return policy;
}

describe("policy adaptive, of callers that come back together", () => {
  test("waits for those that are missing, as long as they need, and for no more", () => {
    const decision = decideForFirst(firstIsBack(Infinity));
    expect(decision).toMatchObject({ flush: false, untilItems: CALLERS, untilSize: 64, runMs: RUN_MS });
    const { untilMs } = decision as FlushDecision & { readonly flush: false };
    // The end of the bin in which 1 ms is.
    expect(untilMs).toBeCloseTo(401.024, 9);
  });

  test("sends what has come when they do not", () => {
    const policy = firstIsBack(Infinity);
    const { untilMs } = decideForFirst(policy) as FlushDecision & { readonly flush: false };
    expect(decideForFirst(policy, untilMs)).toEqual({ flush: true, reason: "timeout", maxItems: Infinity, maxSize: 1 });
  });

  test.each([
    ["shorter than a run", 5, true],
    ["a run", RUN_MS, true],
    ["a run, and half of what the others need", RUN_MS + 0.25, false],
    ["a run, and what the others need", RUN_MS + 1, false],
  ])("with a budget that is %s: %d ms", (_, latencyBudgetMs, flush) => {
    const decision = decideForFirst(firstIsBack(latencyBudgetMs));
    expect(decision.flush).toBe(flush);
    if (flush) {
      expect(decision).toEqual({ flush: true, reason: "idle", maxItems: Infinity, maxSize: 1 });
    } else {
      const { untilMs, runMs } = decision as FlushDecision & { readonly flush: false };
      expect(untilMs + runMs).toBeLessThanOrEqual(400.5 + latencyBudgetMs);
    }
  });

  test("waits for nobody when all are back", () => {
    const policy = firstIsBack(Infinity);
    policy.arrived(401, 3, 3);
    expect(policy.decide({ nowMs: 401, items: 4, size: 4, oldestArrivalMs: 400.5, roomSinceMs: 400 })).toEqual({
      flush: true,
      reason: "idle",
      maxItems: Infinity,
      maxSize: 4,
    });
  });
});
