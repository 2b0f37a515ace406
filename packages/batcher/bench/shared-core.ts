/**
 * `node --conditions=@dlrm/source packages/batcher/bench/shared-core.ts`: the policies where callers and batcher share one core, which
 * batches cost something outside their runs. The policy cannot see that cost: no batcher knows what its core does otherwise.
 */
import { simulate } from "./simulator.ts";

const DEVICE = { name: "350 µs + 4 µs", fixedMicros: 350, perItemMicros: 4 };
const REQUEST_SIZE = 16;

console.log("| an item | a batch | callers | off | window | adaptive | to the better | p99 to the better |");
console.log("| --- | --- | --- | --- | --- | --- | --- | --- |");
for (const itemMicros of [6, 12, 24]) {
  for (const batchMicros of [0, 50, 100, 200]) {
    for (const callers of [16, 64]) {
      const [off, window, adaptive] = await Promise.all(
        (["off", "window", "adaptive"] as const).map((policy) =>
          simulate({
            device: DEVICE,
            load: { kind: "closed", callers },
            requestSize: REQUEST_SIZE,
            policy,
            requests: 2000,
            warmupRequests: 1500,
            seed: 1,
            sharedCore: { itemMicros, batchMicros },
          }),
        ),
      );
      if (off === undefined || window === undefined || adaptive === undefined) {
        throw new Error("a policy was not played");
      }
      const columns = [
        `${itemMicros} µs`,
        `${batchMicros} µs`,
        callers,
        ...[off, window, adaptive].map(({ itemsPerS }) => `${(itemsPerS / 1000).toFixed(1)} k/s`),
        (adaptive.itemsPerS / Math.max(off.itemsPerS, window.itemsPerS)).toFixed(3),
        (adaptive.p99Ms / Math.min(off.p99Ms, window.p99Ms)).toFixed(3),
      ];
      console.log(`| ${columns.join(" | ")} |`);
    }
  }
}
