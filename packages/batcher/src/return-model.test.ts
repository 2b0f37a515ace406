import { describe, expect, test } from "vitest";
import { ReturnModel } from "./return-model.ts";

/** Groups of `callers` that come back `delayMs` after they were answered, one group after the other. */
function learn(model: ReturnModel, callers: number, delayMs: number, groups: number): number {
  let nowMs = 0;
  for (let i = 0; i < groups; i += 1) {
    model.answered(nowMs, callers);
    model.arrived(nowMs + delayMs, callers);
    nowMs += 1;
  }
  return nowMs;
}

describe("the return model", () => {
  test("expects nobody before it has seen anyone come back", () => {
    const model = new ReturnModel();
    expect(model.expected(0, 100)).toBe(0);
    model.answered(0, 10);
    expect(model.expected(0, 100)).toBe(0);
    expect(model.moments(0, 100)).toEqual([]);
  });

  test("expects all callers of a group back after the time that it has learnt, less those that are", () => {
    const model = new ReturnModel();
    const nowMs = learn(model, 8, 0.06, 30);
    model.answered(nowMs, 8);
    // 60 µs lie between 53.8 and 64 µs.
    expect(model.expected(nowMs, nowMs + 0.05)).toBe(0);
    expect(model.expected(nowMs, nowMs + 0.0641)).toBeCloseTo(8, 9);
    expect(model.moments(nowMs, nowMs + 1).map((ms) => Math.round((ms - nowMs) * 1000))).toEqual([64]);
    model.arrived(nowMs + 0.055, 3);
    expect(model.expected(nowMs + 0.055, nowMs + 0.0641)).toBeCloseTo(5, 9);
    model.arrived(nowMs + 0.06, 5);
    expect(model.expected(nowMs + 0.06, nowMs + 10)).toBe(0);
  });

  test("gives up on those who are late", () => {
    const model = new ReturnModel();
    const nowMs = learn(model, 8, 0.06, 30);
    model.answered(nowMs, 8);
    expect(model.expected(nowMs + 0.07, nowMs + 10)).toBe(0);
  });

  test("learns which share comes back at all", () => {
    const model = new ReturnModel();
    let nowMs = 0;
    for (let i = 0; i < 200; i += 1) {
      model.answered(nowMs, 10);
      model.arrived(nowMs + 0.01, 4);
      nowMs += 100;
    }
    model.answered(nowMs, 10);
    expect(model.expected(nowMs, nowMs + 1)).toBeCloseTo(4, 6);
  });

  test("takes an arrival for the longest missing caller, across groups", () => {
    const model = new ReturnModel();
    const nowMs = learn(model, 2, 0.06, 30);
    model.answered(nowMs, 2);
    model.answered(nowMs + 0.03, 2);
    model.arrived(nowMs + 0.06, 2);
    // The second group is still to come, 60 µs after its own answer.
    expect(model.expected(nowMs + 0.06, nowMs + 0.08)).toBe(0);
    expect(model.expected(nowMs + 0.06, nowMs + 0.0942)).toBeCloseTo(2, 9);
  });
});
