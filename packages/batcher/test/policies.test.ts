import { expect, test } from "vitest";
import { DEVICES, playGrid } from "../bench/grid.ts";

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
