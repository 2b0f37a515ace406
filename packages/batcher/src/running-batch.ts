import type { BatchInfo } from "./batcher-hooks.ts";
import type { TimerHandle } from "./clock.ts";
import type { Waiting } from "./entry.ts";
import type { Taken } from "./entry-queue.ts";
import type { FlushReason } from "./flush-policy.ts";
import type { Batch } from "./options.ts";

/** A batch between the call of `run` and its outcome. */
export class RunningBatch<Item, Result> {
  /** Who waits for the results, in the order of the items. */
  readonly waiting: readonly Waiting<Result>[];
  readonly items: readonly Item[];
  readonly info: BatchInfo;
  /** Set with the outcome; whatever the run does after that is ignored. */
  over = false;
  timer: TimerHandle = undefined;
  /** Its index among the running batches. */
  place = 0;
  #staying: number;
  #controller: AbortController | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  constructor({ waiting, items }: Taken<Item, Result>, info: BatchInfo) {
    this.waiting = waiting;
    this.items = items;
    this.info = info;
    this.#staying = waiting.length;
  }

  /** An entry was cancelled or expired; with the last one the run is for nobody. */
  entryLeft(): void {
    this.#staying -= 1;
    if (this.#staying === 0) {
      this.abort(new DOMException("Nobody waits for this batch any more", "AbortError"));
    }
  }

  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(reason);
  }

  /** Made when it is first asked for: most runs cannot be interrupted, and a controller costs a microsecond. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) {
        this.#controller.abort(this.#aborted.reason);
      }
    }
    return this.#controller.signal;
  }
}

/** What the run callback gets. A class: an object with a getter of its own would be of a hidden class of its own. */
export class BatchView<Item> implements Batch<Item> {
  readonly items: readonly Item[];
  readonly size: number;
  readonly paddedSize: number;
  readonly flushReason: FlushReason;
  readonly #running: { readonly signal: AbortSignal };

  constructor(running: RunningBatch<Item, unknown>) {
    const { size, paddedSize, flushReason } = running.info;
    this.items = running.items;
    this.size = size;
    this.paddedSize = paddedSize;
    this.flushReason = flushReason;
    this.#running = running;
  }

  get signal(): AbortSignal {
    return this.#running.signal;
  }
}
