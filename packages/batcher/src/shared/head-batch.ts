import type { FlushPolicy } from "../flush-policy.ts";
import type { ConsumerStats } from "./consumer-stats.ts";
import type { RingSchema, SlotMemory } from "./ring-memory.ts";

/**
 * What the consumer knows of the items in the batch that it takes next: told to the policy as they are seen, each once,
 * when the batch is looked at or, at the latest, when it is taken.
 */
export class HeadBatch<Schema extends RingSchema> {
  readonly #policy: FlushPolicy;
  readonly #itemsAlone: boolean;
  /** Rows whose items were seen, and these. */
  #rows = 0;
  items = 0;
  oldestMs: number = Infinity;
  earliestDeadlineMs: number = Infinity;

  constructor(policy: FlushPolicy, itemsAlone: boolean) {
    this.#policy = policy;
    this.#itemsAlone = itemsAlone;
  }

  /** Looks at the items in the first `rows` reserved rows. */
  look({ sizes, arrivals, deadlines }: SlotMemory<Schema>, rows: number): void {
    while (this.#rows < rows) {
      const row = this.#rows;
      const size = Atomics.load(sizes, row);
      if (size === 0) {
        // Reserved and not said yet how large.
        break;
      }
      const arrivedMs = arrivals[row] as number;
      this.oldestMs = Math.min(this.oldestMs, arrivedMs);
      this.earliestDeadlineMs = Math.min(this.earliestDeadlineMs, deadlines[row] as number);
      this.#policy.arrived(arrivedMs, 1, size);
      this.items += 1;
      this.#rows += this.#itemsAlone ? 1 : size;
    }
  }

  /** Whether all items in so many reserved rows were seen: of the last ones it may not be said yet how large they are. */
  hasSeen(rows: number): boolean {
    return this.#rows >= rows;
  }

  /** Takes the items out of a complete batch of so many reserved rows. Returns the last one's size. */
  take({ sizes, arrivals }: SlotMemory<Schema>, rows: number, nowMs: number, stats: ConsumerStats<Schema>): number {
    let size = 0;
    for (let row = 0; row < rows;) {
      size = Atomics.exchange(sizes, row, 0);
      if (size > 0) {
        const arrivedMs = arrivals[row] as number;
        stats.delayed(Math.max(0, nowMs - arrivedMs));
        if (row >= this.#rows) {
          this.#policy.arrived(arrivedMs, 1, size);
          this.items += 1;
        }
      }
      // A row without a size is of a producer that died before it said one.
      row += Math.max(1, size);
    }
    return size;
  }

  /** The batch is taken: the next one is the head. */
  reset(): void {
    this.#rows = 0;
    this.items = 0;
    this.oldestMs = Infinity;
    this.earliestDeadlineMs = Infinity;
  }
}
