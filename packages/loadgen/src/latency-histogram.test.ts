import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { LatencyHistogram, MAX_LATENCY_MICROS } from "./latency-histogram.ts";
import { livePercentileMicros, LiveLatency } from "./live-latency.ts";

const latencies = fc.array(fc.integer({ min: 0, max: 10_000_000 }), { maxLength: 300 });
const percentiles = [0, 1, 50, 90, 99, 99.9, 100];

function recordAll(values: readonly number[]): LatencyHistogram {
  const histogram = LatencyHistogram.create();
  for (const value of values) histogram.record(value);
  return histogram;
}

function read(histogram: LatencyHistogram): number[] {
  return [histogram.count, ...percentiles.map((p) => histogram.percentileMicros(p))];
}

describe.each(["JavaScript", "WebAssembly"])("LatencyHistogram, recorded in %s", (build) => {
  beforeAll(async () => {
    if (build === "WebAssembly") await LatencyHistogram.prepare();
  });

  test("merged parts read like one histogram that recorded all", () => {
    fc.assert(
      fc.property(fc.array(latencies, { minLength: 1, maxLength: 4 }), (parts) => {
        const merged = LatencyHistogram.merge(parts.map((part) => recordAll(part).encode()));
        const all = LatencyHistogram.merge([recordAll(parts.flat()).encode()]);
        expect(read(merged)).toEqual(read(all));
        expect(merged.maxMicros).toBe(all.maxMicros);
        expect(merged.meanMicros).toBeCloseTo(all.meanMicros, 6);
      }),
      { numRuns: 25 },
    );
  });

  test("percentiles are within a thousandth of the exact ones", () => {
    fc.assert(
      fc.property(
        latencies.filter((values) => values.length > 0),
        fc.constantFrom(...percentiles),
        (values, p) => {
          const sorted = [...values].sort((a, b) => a - b);
          const exact = sorted[Math.max(0, Math.ceil((p / 100) * values.length) - 1)] as number;
          const got = recordAll(values).percentileMicros(p);
          expect(got).toBeGreaterThanOrEqual(exact * 0.999);
          expect(got).toBeLessThanOrEqual(exact * 1.001 + 1);
        },
      ),
      { numRuns: 50 },
    );
  });

  test("what lies outside its range is recorded at the range's ends", () => {
    const histogram = recordAll([-3, 0.4, MAX_LATENCY_MICROS * 2]);
    expect(histogram.count).toBe(3);
    expect(histogram.percentileMicros(50)).toBe(0);
    expect(Math.abs(histogram.maxMicros / MAX_LATENCY_MICROS - 1)).toBeLessThan(0.001);
  });

  test("an empty one reads as 0", () => {
    const empty = LatencyHistogram.merge([]);
    expect([empty.count, empty.meanMicros, empty.maxMicros, empty.percentileMicros(99)]).toEqual([0, 0, 0, 0]);
    expect(LatencyHistogram.decode(empty.encode()).count).toBe(0);
  });
});

describe("LiveLatency", () => {
  test("percentiles of merged counts are close to the exact ones", () => {
    const [a, b] = [new LiveLatency(), new LiveLatency()];
    for (let i = 1; i <= 1000; i++) (i % 2 === 0 ? a : b).record(i * 10);
    const counts = [...a.take(), ...b.take()];
    for (const p of [1, 50, 99, 100]) {
      const got = livePercentileMicros(counts, p) as number;
      expect(Math.abs(got / (p * 100) - 1)).toBeLessThan(0.04);
    }
  });

  test("every latency is known to within 1/32 of itself", () => {
    fc.assert(
      fc.property(fc.oneof(fc.nat(100), fc.nat(0x7fff_ffff)), (micros) => {
        const live = new LiveLatency();
        live.record(micros + 0.25);
        const got = livePercentileMicros(live.take(), 50) as number;
        expect(Math.abs(got - micros)).toBeLessThanOrEqual(micros / 32);
      }),
    );
  });

  test("taking empties it; without answers there is no percentile", () => {
    const live = new LiveLatency();
    live.record(0);
    live.record(1e12);
    expect(live.take()).toEqual([
      [0, 1],
      [447, 1],
    ]);
    expect(live.take()).toEqual([]);
    expect(livePercentileMicros([], 50)).toBeUndefined();
  });
});
