import { BatchSlot, type BatchSlotLayout } from "./batch-slot.ts";

export interface SlotPoolOptions extends Omit<BatchSlotLayout, "rows"> {
  /** Rows of a slot in which requests are placed. */
  readonly placedRows: number;
  /** The largest batch with its padding. */
  readonly largestBucket: number;
  /** Slots in which requests are placed at one time. */
  readonly maxSlots: number;
}

/**
 * Slots for requests as they come. One slot is open: requests get consecutive rows of it, so that those that wait together
 * can run together where they are. They are made before the first request comes, with the memory of their first rows; those that
 * batches need beside them are made when they are needed. Slots that nobody needs are used again, the last one first, as it is
 * still in the caches.
 */
export class SlotPool {
  readonly #options: SlotPoolOptions;
  readonly #free: BatchSlot[];
  /** In which requests have been placed, or will be. */
  readonly #placed = new Set<BatchSlot>();
  #open: BatchSlot | undefined = undefined;

  constructor(options: SlotPoolOptions) {
    this.#options = options;
    this.#free = Array.from({ length: options.maxSlots }, () => this.#make());
    for (const slot of this.#free) slot.touch();
  }

  /** A slot with room for `rows` more rows from `used` on, or undefined if there is none now. */
  withRoom(rows: number): BatchSlot | undefined {
    const { placedRows, maxSlots } = this.#options;
    const open = this.#open;
    if (open !== undefined) {
      if (open.used + rows <= placedRows) return open;
      this.seal(open);
    }
    if (rows > placedRows || this.#placed.size >= maxSlots) return undefined;
    this.#open = this.#free.pop() ?? this.#make();
    this.#placed.add(this.#open);
    return this.#open;
  }

  /** Places nothing more in a slot: all that is in it is on its way. */
  seal(slot: BatchSlot): void {
    if (slot !== this.#open) return;
    this.#open = undefined;
    if (slot.users === 0) this.#recycle(slot);
  }

  /** A slot of the caller's own, for a batch that must be put together; there may be one for each batch in flight. */
  take(): BatchSlot {
    const slot = this.#free.pop() ?? this.#make();
    slot.users++;
    return slot;
  }

  /** One user less; the last one frees it. */
  release(slot: BatchSlot): void {
    slot.users--;
    if (slot.users > 0) return;
    if (slot === this.#open) slot.used = 0;
    else this.#recycle(slot);
  }

  /** A device hangs that may write into a slot at any time: it is never used again, and another may be in its place. */
  lose(slot: BatchSlot): void {
    this.seal(slot);
    this.#placed.delete(slot);
  }

  #make(): BatchSlot {
    const { placedRows, largestBucket, denseFeatures, pooledWidth } = this.#options;
    return new BatchSlot({ rows: placedRows + largestBucket, denseFeatures, pooledWidth });
  }

  #recycle(slot: BatchSlot): void {
    slot.used = 0;
    this.#placed.delete(slot);
    this.#free.push(slot);
  }
}
