import { LatencyHistogram } from "../src/latency-histogram.ts";
import { fillLoadOptions, type LoadOptions } from "../src/load-options.ts";
import { combineReports, type LoadResult } from "../src/load-result.ts";
import { LoadShare } from "../src/load-share.ts";
import { nowMicros } from "../src/monotonic-clock.ts";
import { planShares } from "../src/share-plan.ts";

/** `runLoad` with its one load process's work done in this process: starting one takes longer than most runs of a test. */
export async function runHere(options: LoadOptions): Promise<LoadResult> {
  const filled = fillLoadOptions(options);
  await LatencyHistogram.prepare();
  const shares = planShares({ ...filled, processes: 1 }, 1);
  const [plan] = shares;
  if (plan === undefined) throw new Error("no share is planned");
  const share = await LoadShare.prepare(filled, plan);
  const startMicros = nowMicros();
  return combineReports({
    options: filled,
    shares,
    reports: [await share.run(startMicros)],
    poolBytes: share.pool.bytes,
    poolRequests: share.pool.requests,
    measuredFromMicros: startMicros + filled.warmupS * 1e6,
    cpuCount: 1,
    cpus: undefined,
    notPinnedReason: undefined,
  });
}
