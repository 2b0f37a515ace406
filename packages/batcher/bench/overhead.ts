import { Batcher } from "@dlrm/batcher";
import { Bench } from "tinybench";

export const ITEMS = 1000;
const BATCH_SIZE = 100;

export interface OverheadResult {
  readonly batcherNsPerItem: number;
  /** undefined where `dataloader` is not installed. */
  readonly dataloaderNsPerItem: number | undefined;
}

interface Loader {
  load(key: number): Promise<number>;
}

/** 1,000 items submitted at once, run in batches of 100 by a function that does nothing: what is left is overhead. */
export async function measureOverhead(timeMs: number): Promise<OverheadResult> {
  const bench = new Bench({ time: timeMs, warmupTime: timeMs / 2 });
  const run = (items: readonly number[]): Promise<readonly number[]> => Promise.resolve(items);
  const batcher = new Batcher<number, number>({
    maxBatchSize: BATCH_SIZE,
    maxInFlightBatches: ITEMS / BATCH_SIZE,
    run: ({ items }) => run(items),
  });
  const keys = Array.from({ length: ITEMS }, (_, i) => i);
  bench.add("batcher", async () => {
    await Promise.all(keys.map((key) => batcher.submit(key)));
  });
  const loader = await openLoader(run);
  if (loader !== undefined) {
    bench.add("dataloader", async () => {
      await Promise.all(keys.map((key) => loader.load(key)));
    });
  }
  await bench.run();
  const nsPerItem = (name: string): number => {
    const result = bench.getTask(name)?.result;
    if (result === undefined || !("latency" in result)) {
      throw new Error(`${name} was not measured: ${result?.state ?? "no result"}`);
    }
    return (result.latency.p50 * 1e6) / ITEMS;
  };
  return {
    batcherNsPerItem: nsPerItem("batcher"),
    dataloaderNsPerItem: loader === undefined ? undefined : nsPerItem("dataloader"),
  };
}

/** Without its cache, which would answer without a batch. */
async function openLoader(run: (keys: readonly number[]) => Promise<readonly number[]>): Promise<Loader | undefined> {
  try {
    const { default: DataLoader } = await import("dataloader");
    return new DataLoader<number, number>(run, { maxBatchSize: BATCH_SIZE, cache: false });
  } catch {
    return undefined;
  }
}
