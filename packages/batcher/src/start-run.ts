import { BatcherError } from "./batcher-error.ts";
import type { Clock } from "./clock.ts";
import { findProblem } from "./item-checks.ts";
import type { ResolvedOptions } from "./options.ts";
import type { RunningBatch } from "./running-batch.ts";
import { BatchView } from "./running-batch.ts";

/** Hears of the outcome of a run; of more than one if a run ends after its time. */
interface RunHandlers<Item, Result> {
  returned(batch: RunningBatch<Item, Result>, results: ArrayLike<Result | Error>): void;
  failed(batch: RunningBatch<Item, Result>, error: BatcherError): void;
}

/** Calls `run` for a batch, and says what has come of it: results that fit its items, or why there are none. */
export function startRun<Item, Result>(
  batch: RunningBatch<Item, Result>,
  { run, runTimeoutMs }: ResolvedOptions<Item, Result>,
  clock: Clock,
  handlers: RunHandlers<Item, Result>,
): void {
  if (runTimeoutMs < Infinity) {
    batch.timer = clock.schedule(() => timedOut(batch, runTimeoutMs, handlers), runTimeoutMs, false);
  }
  let outcome: PromiseLike<ArrayLike<Result | Error>> | ArrayLike<Result | Error>;
  try {
    outcome = run(new BatchView<Item>(batch as RunningBatch<Item, unknown>));
  } catch (cause) {
    handlers.failed(batch, new BatcherError("run_failed", "the run of the batch threw", { cause }));
    return;
  }
  Promise.resolve(outcome).then(
    (results) => {
      const problem = findProblem(results, batch.items.length);
      if (problem === undefined) {
        handlers.returned(batch, results);
      } else {
        handlers.failed(batch, new BatcherError("run_failed", problem, { cause: new TypeError(problem) }));
      }
    },
    (cause: unknown) =>
      handlers.failed(batch, new BatcherError("run_failed", "the run of the batch was rejected", { cause })),
  );
}

function timedOut<Item, Result>(
  batch: RunningBatch<Item, Result>,
  runTimeoutMs: number,
  handlers: RunHandlers<Item, Result>,
): void {
  const message = `the run of the batch took longer than runTimeoutMs, ${runTimeoutMs}`;
  const error = new BatcherError("run_timeout", message);
  handlers.failed(batch, error);
  batch.abort(error);
}
