import type { RingSchema, SharedRing, SlotMemory } from "./ring-memory.ts";
import { mapControl, mapMemories, shapeOf, writeMessage } from "./ring-memory.ts";
import type { RingShape } from "./ring-protocol.ts";
import { publish, release, takeParticipants } from "./ring-protocol.ts";
import { SlotBatch } from "./slot-batch.ts";

/** Takes part as a reader, in place of a producer, in batches whose runs hold their slots. */
const HOLDER = 31;

/**
 * The consumer's batches by slot, and the memory that each is in.
 *
 * Invariant: a memory is that of one slot, or of one run that was given up and goes on, or spare.
 */
export class SlotBatches<Schema extends RingSchema> {
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #shape: RingShape;
  /** Which of `#memory` each slot has. */
  readonly #memories: Int32Array<SharedArrayBuffer>;
  readonly #memory: readonly SlotMemory<Schema>[];
  readonly #spares: number[];
  readonly #batches: SlotBatch<Schema>[];

  constructor(ring: SharedRing<Schema>) {
    const { control, memories } = mapControl(ring);
    this.#control = control;
    this.#shape = shapeOf(ring);
    this.#memories = memories;
    this.#memory = mapMemories(ring);
    this.#spares = this.#memory.map((_, memory) => memory).slice(ring.slots);
    this.#batches = Array.from({ length: ring.slots }, (_, slot) => this.#batchIn(slot, slot));
  }

  of(slot: number): SlotBatch<Schema> {
    return this.#batches[slot] as SlotBatch<Schema>;
  }

  memoryOf(slot: number): SlotMemory<Schema> {
    return this.#memory[this.#memories[slot] as number] as SlotMemory<Schema>;
  }

  /** Hands a batch to those who wait for it, with the reason if it has failed. */
  publish({ slot, sequence, holdsSlot }: SlotBatch<Schema>, status: number, message?: string): void {
    if (message !== undefined) {
      writeMessage(this.memoryOf(slot).message, message);
    }
    const participants = takeParticipants(this.#control, this.#shape, slot);
    publish(this.#control, this.#shape, sequence, holdsSlot ? participants | (1 << HOLDER) : participants, status);
  }

  /**
   * Before a batch is published whose run goes on, and may still write: takes its memory from the slot, so that who reads why
   * it failed, and who has the slot next, does so in another; if there is none, has the slot wait.
   */
  giveUp(batch: SlotBatch<Schema>): void {
    const { slot } = batch;
    batch.isGivenUp = true;
    const spare = this.#spares.pop();
    if (spare === undefined) {
      batch.holdsSlot = true;
    } else {
      Atomics.store(this.#memories, slot, spare);
      this.#batches[slot] = this.#batchIn(slot, spare);
    }
  }

  /** The run of a batch that was given up has ended. */
  runEnded(batch: SlotBatch<Schema>): void {
    if (batch.holdsSlot) {
      batch.holdsSlot = false;
      release(this.#control, this.#shape, HOLDER, batch.slot);
    } else {
      this.#spares.push(batch.memory);
    }
  }

  #batchIn(slot: number, memory: number): SlotBatch<Schema> {
    return new SlotBatch(this.#memory[memory] as SlotMemory<Schema>, slot, memory);
  }
}
