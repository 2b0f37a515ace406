import { BatcherError } from "./batcher-error.ts";

/** Whether a batcher takes items, and when what it has taken is out. */
export class Lifecycle {
  state: "open" | "draining" | "closed" = "open";
  /** Resolves when nothing waits or runs any more, once it drains. */
  readonly drained: Promise<void>;
  readonly #queue: { readonly items: number };
  readonly #inFlight: { readonly batches: { readonly length: number } };
  #resolve: () => void = () => {};
  #drains = false;

  constructor(queue: { readonly items: number }, inFlight: { readonly batches: { readonly length: number } }) {
    this.#queue = queue;
    this.#inFlight = inFlight;
    this.drained = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** True for the first call. */
  beginDrain(): boolean {
    if (this.#drains) {
      return false;
    }
    this.#drains = true;
    if (this.state === "open") {
      this.state = "draining";
    }
    return true;
  }

  /** After something has left: that may have been the last. */
  settle(): void {
    if (this.#drains && this.#queue.items === 0 && this.#inFlight.batches.length === 0) {
      this.#resolve();
    }
  }

  /** Why an item is not taken, when it is not open. */
  refusal(): BatcherError {
    return this.state === "closed"
      ? new BatcherError("closed", "the batcher is closed")
      : new BatcherError("draining", "the batcher is draining and takes no new items");
  }
}
