import { expect, test } from "vitest";
import { HealthState, type Phase } from "./health-state.ts";

test.each<[readonly Phase[], Phase, string | undefined]>([
  [["serving"], "serving", undefined],
  [["serving", "starting"], "serving", undefined],
  [["serving", "recovering"], "recovering", "reason of recovering"],
  [["serving", "recovering", "serving"], "serving", undefined],
  [["serving", "recovering", "draining"], "draining", "reason of draining"],
  [["draining", "serving"], "draining", "reason of draining"],
  [["draining", "recovering"], "draining", "reason of draining"],
  [["draining", "closed"], "closed", "reason of closed"],
  [["closed", "draining"], "closed", "reason of closed"],
])("after %j the phase is %s, for %s", (phases, phase, reason) => {
  const health = new HealthState();
  for (const each of phases) health.advance(each, `reason of ${each}`);
  expect([health.phase, health.reason]).toEqual([phase, reason]);
});

test("why it drains stays the reason when it closes, why it recovered does not", () => {
  const health = new HealthState();
  health.advance("serving");
  health.advance("recovering", "opening its device again");
  health.advance("draining");
  expect(health.reason).toBeUndefined();
  const other = new HealthState();
  other.advance("draining", "without its device");
  other.advance("closed");
  expect(other.reason).toBe("without its device");
});

test("a change of phase is told once, and a phase that stays is none", async () => {
  const health = new HealthState();
  const { signal } = new AbortController();
  const changed = health.changed(signal);
  let isTold = false;
  void changed.then(() => (isTold = true));
  health.advance("starting");
  await Promise.resolve();
  expect(isTold).toBe(false);
  health.advance("serving");
  await changed;
  expect(health.phase).toBe("serving");
});
