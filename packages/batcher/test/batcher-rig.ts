import type { Batch, BatcherOptions } from "../src/index.ts";
import { Batcher, BatcherError } from "../src/index.ts";
import { FakeClock } from "../src/testing/index.ts";

interface Rig<Item> {
  readonly clock: FakeClock;
  readonly batcher: Batcher<Item, string>;
  /** Batches in the order in which they were run. */
  readonly ran: Batch<Item>[];
}

/** A batcher whose runs take `runMs` and answer `item!`. */
export function rig<Item = number>(
  options: Partial<BatcherOptions<Item, string>> & { runMs?: number } = {},
): Rig<Item> {
  const clock = new FakeClock();
  const ran: Batch<Item>[] = [];
  const { runMs = 10, ...rest } = options;
  const batcher = new Batcher<Item, string>({
    clock,
    policy: "window",
    maxBatchSize: 4,
    run: (batch) => {
      ran.push(batch);
      return new Promise((resolve) => {
        clock.schedule(() => resolve(batch.items.map((item) => `${String(item)}!`)), runMs);
      });
    },
    ...rest,
  });
  return { clock, batcher, ran };
}

/** Resolves with the code that a promise is rejected with, or with its value. */
export async function outcome(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise;
  } catch (error) {
    return error instanceof BatcherError ? error.code : error;
  }
}

/** Resolves with the error that a promise is rejected with. */
export async function failure(promise: Promise<unknown>): Promise<BatcherError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof BatcherError) {
      return error;
    }
  }
  throw new Error("expected a BatcherError");
}
