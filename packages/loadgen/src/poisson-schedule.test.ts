import { describe, expect, test } from "vitest";
import { poissonSchedule } from "./poisson-schedule.ts";

describe("poissonSchedule", () => {
  test("one seed gives one schedule; another gives another", () => {
    const schedule = poissonSchedule({ seed: 7, ratePerS: 1000, lengthS: 1 });
    expect(poissonSchedule({ seed: 7, ratePerS: 1000, lengthS: 1 })).toEqual(schedule);
    expect(poissonSchedule({ seed: 8, ratePerS: 1000, lengthS: 1 })).not.toEqual(schedule);
  });

  test("is the same on every machine", () => {
    const schedule = poissonSchedule({ seed: 1, ratePerS: 10, lengthS: 0.5 });
    expect([...schedule].map((micros) => Math.round(micros))).toMatchInlineSnapshot(`
      [
        24185,
        72070,
        108961,
        163585,
        175024,
        296958,
        302244,
        418707,
        475008,
      ]
    `);
  });

  test.each([1, 2, 3, 8])("dealt out to %d processes it is the same schedule", (parts) => {
    const whole = poissonSchedule({ seed: 3, ratePerS: 5000, lengthS: 0.4 });
    const dealt = Array.from({ length: parts }, (_, part) =>
      poissonSchedule({ seed: 3, ratePerS: 5000, lengthS: 0.4, part, parts }),
    );
    expect(dealt.flatMap((part) => [...part]).sort((a, b) => a - b)).toEqual([...whole]);
    for (const part of dealt) expect(part.length).toBeGreaterThanOrEqual(Math.floor(whole.length / parts));
  });

  test("its gaps are exponential: mean, spread and tail are those of the rate", () => {
    const times = poissonSchedule({ seed: 5, ratePerS: 2000, lengthS: 100 });
    const gaps = [...times].map((time, i) => time - (times[i - 1] ?? 0));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
    // 200,000 gaps: the mean's standard error is 0.22 %, so 1 % is 4.5 of them; the seed is fixed besides.
    expect(mean / 500).toBeCloseTo(1, 2);
    expect(deviation / 500).toBeCloseTo(1, 1);
    expect(gaps.filter((gap) => gap > 500).length / gaps.length).toBeCloseTo(Math.exp(-1), 2);
    expect(gaps.filter((gap) => gap > 1500).length / gaps.length).toBeCloseTo(Math.exp(-3), 2);
    expect(gaps.every((gap) => gap > 0)).toBe(true);
    expect(times.at(-1)).toBeLessThan(100e6);
  });

  test("a ramp rises evenly to the rate, and has half the sends of as long a time after it", () => {
    const times = poissonSchedule({ seed: 5, ratePerS: 2000, lengthS: 200, rampS: 100 });
    const between = (fromS: number, toS: number): number =>
      times.filter((micros) => micros >= fromS * 1e6 && micros < toS * 1e6).length;
    const expected = (rate: number, fromS: number, toS: number): number => rate * (toS - fromS);
    expect(between(0, 50) / expected(500, 0, 50)).toBeCloseTo(1, 1);
    expect(between(50, 100) / expected(1500, 50, 100)).toBeCloseTo(1, 1);
    expect(between(100, 200) / expected(2000, 100, 200)).toBeCloseTo(1, 1);
    expect([...times].every((time, i) => time > (times[i - 1] ?? 0))).toBe(true);
  });

  test("refuses a schedule that would not fit into memory", () => {
    expect(() => poissonSchedule({ seed: 1, ratePerS: 1e6, lengthS: 60 })).toThrow(
      "1000000 sends/s for 60 s are 60000000 sends, the limit is 50000000",
    );
  });
});
