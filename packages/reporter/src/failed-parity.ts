import type { ArmFamily, Summary } from "./summary.ts";

/**
 * Arms whose scores were wrong, or did not come, at some check. What was measured before it was found out stays in the report, but
 * how fast such scores come is no result.
 */
export function armsThatFailedParity({ parity }: Pick<Summary, "parity">): ReadonlySet<string> {
  return new Set(parity.filter(({ ok }) => !ok).map(({ arm }) => arm));
}

/** The family that each arm competes in; of those that failed parity none. */
export function competingFamilies(summary: Pick<Summary, "arms" | "parity">): ReadonlyMap<string, ArmFamily> {
  const failed = armsThatFailedParity(summary);
  return new Map((summary.arms ?? []).flatMap(({ arm, family }) => (failed.has(arm) ? [] : [[arm, family] as const])));
}
