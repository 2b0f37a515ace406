import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Batcher } from "@dlrm/batcher";
import { Bench } from "tinybench";

export const ITEMS = 1000;
const BATCH_SIZE = 100;

export interface OverheadResult {
  readonly batcherNsPerItem: number;
  /** undefined where `dataloader` is not installed. */
  readonly dataloaderNsPerItem: number | undefined;
  /** Of the batcher to `dataloader`, both in one process. */
  readonly ratio: number | undefined;
}

interface Loader {
  load(key: number): Promise<number>;
}

/** Short rounds in turns, so that what else the machine does meets both alike. */
const ROUNDS = 15;
/** Rounds that are not counted: until the engine has optimized all of both. */
const WARMUP_ROUNDS = 5;
/** Fresh processes: how well the engine optimizes differs from one to the next. */
const PROCESSES = 5;

/** `measureOverhead` in processes of their own. */
export function measureOverheadInProcesses(timeMs: number): readonly OverheadResult[] {
  const file = import.meta.url.endsWith(".ts") ? "./overhead-child.ts" : "./overhead-child.js";
  const script = fileURLToPath(new URL(file, import.meta.url));
  return Array.from({ length: PROCESSES }, () => {
    const args = [...process.execArgv, script, String(timeMs / PROCESSES)];
    return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" })) as OverheadResult;
  });
}

/**
 * CPU time of the process, garbage collection included, for each of 1,000 items submitted at once, run in batches of 100
 * by a function that does nothing: what is left is overhead. Medians over rounds.
 */
export async function measureOverhead(timeMs: number): Promise<OverheadResult> {
  const run = (items: readonly number[]): Promise<readonly number[]> => Promise.resolve(items);
  const batcher = new Batcher<number, number>({
    maxBatchSize: BATCH_SIZE,
    maxInFlightBatches: ITEMS / BATCH_SIZE,
    run: ({ items }) => run(items),
  });
  const keys = Array.from({ length: ITEMS }, (_, i) => i);
  const submitAll = async (): Promise<void> => {
    await Promise.all(keys.map((key) => batcher.submit(key)));
  };
  const loader = await openLoader(run);
  const batcherNs: number[] = [];
  const dataloaderNs: number[] = [];
  for (let round = 0; round < WARMUP_ROUNDS + ROUNDS; round += 1) {
    const bench = new Bench({ time: timeMs / ROUNDS, warmupTime: timeMs / ROUNDS, now: cpuMs });
    const tasks: [string, () => Promise<void>][] = [["batcher", submitAll]];
    if (loader !== undefined) {
      const loadAll = async (): Promise<void> => {
        await Promise.all(keys.map((key) => loader.load(key)));
      };
      tasks.push(["dataloader", loadAll]);
    }
    for (const [name, task] of round % 2 === 0 ? tasks : tasks.toReversed()) {
      bench.add(name, task);
    }
    await bench.run();
    if (round < WARMUP_ROUNDS) {
      continue;
    }
    batcherNs.push(nsPerItem(bench, "batcher"));
    if (loader !== undefined) {
      dataloaderNs.push(nsPerItem(bench, "dataloader"));
    }
  }
  const batcherNsPerItem = median(batcherNs);
  const dataloaderNsPerItem = loader === undefined ? undefined : median(dataloaderNs);
  return {
    batcherNsPerItem,
    dataloaderNsPerItem,
    ratio: dataloaderNsPerItem === undefined ? undefined : batcherNsPerItem / dataloaderNsPerItem,
  };
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function nsPerItem(bench: Bench, name: string): number {
  const result = bench.getTask(name)?.result;
  if (result === undefined || !("latency" in result)) {
    throw new Error(`${name} was not measured: ${result?.state ?? "no result"}`);
  }
  return (result.latency.mean * 1e6) / ITEMS;
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
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
