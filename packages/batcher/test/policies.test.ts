import { expect, test } from "vitest";
import { DEVICES, playGrid } from "../bench/grid.ts";
import { simulate } from "../bench/simulator.ts";

/** A part of what `nx run batcher:bench` plays in full; on a fake clock, so that it always comes out the same. */
test.each(DEVICES)(
  "adaptive is at least as good as the better of off and window, on a device of $name",
  async (device) => {
    const points = await playGrid({
      requests: 300,
      seed: 3,
      devices: [device],
      callers: [1, 4, 16, 64],
      openLoads: false,
    });
    for (const { requestSize, loadName, throughputRatio, p99Ratio } of points) {
      const at = `${requestSize} a request, ${loadName}`;
      expect([at, throughputRatio >= 0.98, p99Ratio <= 1.1], `${throughputRatio} ${p99Ratio}`).toEqual([
        at,
        true,
        true,
      ]);
    }
    expect(points).toHaveLength(12);
  },
  120_000,
);

test("adaptive finds the size beyond which a batch costs more for each item again", async () => {
  const device = DEVICES.find(({ microsBySize }) => microsBySize !== undefined)!;
  const points = await playGrid({ requests: 3000, seed: 3, devices: [device], callers: [64], openLoads: false });
  const meanSizes = points.map(({ results }) => Math.round(results.adaptive.meanBatchSize));
  // With one a request half of the callers, who take turns; with 16 and 128, batches of 128 and some trials.
  expect(meanSizes[0]).toBe(32);
  for (const size of meanSizes.slice(1)) {
    expect(size).toBeGreaterThanOrEqual(120);
    expect(size).toBeLessThanOrEqual(200);
  }
  // Each request alone, 16 items, costs half as much again for each of its items.
  expect(points[1]!.throughputRatio).toBeGreaterThan(1.4);
});

test.each([2, 10, 30])(
  "adaptive tries larger batches so rarely that it does not matter if they are %i times as dear",
  async (times) => {
    // Of 1, 2, 4 … 4096 items; requests have 1,024.
    const microsBySize = Array.from({ length: 13 }, (_, power) => (50 + 4.3 * 2 ** power) * (power > 10 ? times : 1));
    const device = { name: "", fixedMicros: 50, perItemMicros: 4.3, microsBySize };
    const [off, adaptive] = await Promise.all(
      (["off", "adaptive"] as const).map((policy) =>
        simulate({
          device,
          load: { kind: "closed", callers: 3 },
          requestSize: 1024,
          policy,
          seed: 1,
          requests: 8000,
          warmupRequests: 4000,
        }),
      ),
    );
    expect(adaptive!.itemsPerS / off!.itemsPerS).toBeGreaterThan(0.99);
    expect(adaptive!.p99Ms / off!.p99Ms).toBeLessThan(1.05);
  },
);
