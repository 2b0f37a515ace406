import type { ArmFamily, Summary } from "./summary.ts";

/**
 * Arms whose scores were wrong at some check. What was measured before it was found out stays in the report, but how fast wrong
 * scores come is no result.
 */
export function armsWithWrongScores({ parity }: Pick<Summary, "parity">): ReadonlySet<string> {
  return new Set(parity.filter(({ ok }) => !ok).map(({ arm }) => arm));
}

/** The family that each arm competes in; of those with wrong scores none. */
export function competingFamilies(summary: Pick<Summary, "arms" | "parity">): ReadonlyMap<string, ArmFamily> {
  const wrong = armsWithWrongScores(summary);
  return new Map((summary.arms ?? []).flatMap(({ arm, family }) => (wrong.has(arm) ? [] : [[arm, family] as const])));
}
