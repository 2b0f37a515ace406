import { EmbeddingError } from "./embedding-error.ts";
import type { KernelPlan } from "./kernel.ts";

/** Counts beginnings and ends of updates: odd while rows are being replaced. */
const SEQUENCE = 0;
/** 1 while a thread holds the lock. */
const LOCK = 1;
/** Gathers that an update falls into are made again; after so many, the next one keeps updates out. */
const ATTEMPTS = 3;
/** No update takes as long, even of all rows of the largest tables. */
const UPDATE_LIMIT_MS = 60_000;

/**
 * Lets rows be replaced in place while other threads read them (a seqlock): readers do not stop each other, a reader that an update falls
 * into reads again, and one that updates leave no time for takes the writers' lock. A thread that is terminated inside an update
 * leaves rows half written, and one inside a gather may leave the lock: who waits for them is refused after `limitMs`.
 */
export class UpdateGate {
  /** For the same gate in other threads. */
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #limitMs: number;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8), limitMs: number = UPDATE_LIMIT_MS) {
    this.buffer = buffer;
    this.#limitMs = limitMs;
    this.#words = new Int32Array(buffer);
  }

  /** Runs `write`, which replaces rows, alone. Gives the new epoch, which counts updates. */
  update(write: () => void): number {
    this.#lock();
    try {
      Atomics.add(this.#words, SEQUENCE, 1);
      write();
    } finally {
      Atomics.add(this.#words, SEQUENCE, 1);
      Atomics.notify(this.#words, SEQUENCE);
      this.#unlock();
    }
    return Atomics.load(this.#words, SEQUENCE) >>> 1;
  }

  /** Runs `read`, again if need be, until no update has fallen into it. */
  read(read: () => number): number {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const before = Atomics.load(this.#words, SEQUENCE);
      if (before % 2 === 0) {
        const result = read();
        // An addition, not a load: reads of rows must not be made after it, which only a write prevents on every CPU.
        if (Atomics.add(this.#words, SEQUENCE, 0) === before) return result;
      } else {
        this.#wait(SEQUENCE, before);
      }
    }
    this.#lock();
    try {
      return read();
    } finally {
      this.#unlock();
    }
  }

  /** The plan, with each gather's rows as of one epoch. */
  guard(plan: KernelPlan): KernelPlan {
    return {
      findOutOfVocabulary: (ids, batch) => plan.findOutOfVocabulary(ids, batch),
      gather: (ids, batch, output, outputRow, weights) =>
        this.read(() => plan.gather(ids, batch, output, outputRow, weights)),
      gatherRagged: (ids, lengths, batch, output, outputRow, weights) =>
        this.read(() => plan.gatherRagged(ids, lengths, batch, output, outputRow, weights)),
    };
  }

  #lock(): void {
    while (Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0) this.#wait(LOCK, 1);
  }

  /** Waits until the word is no longer `value`. Throws if no update begins or ends meanwhile for so long that none can be under way. */
  #wait(word: number, value: number): void {
    const before = Atomics.load(this.#words, SEQUENCE);
    if (Atomics.wait(this.#words, word, value, this.#limitMs) !== "timed-out") return;
    if (Atomics.load(this.#words, SEQUENCE) !== before) return;
    throw new EmbeddingError(
      "interrupted_update",
      `a thread has kept others from the tables for ${this.#limitMs / 1000} s, expected an end: it was terminated inside update() or gather(), and rows may be half written; open the store anew`,
    );
  }

  #unlock(): void {
    Atomics.store(this.#words, LOCK, 0);
    Atomics.notify(this.#words, LOCK, 1);
  }
}
