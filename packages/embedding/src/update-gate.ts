import type { KernelPlan } from "./kernel.ts";

/** Counts beginnings and ends of updates: odd while rows are being replaced. */
const SEQUENCE = 0;
/** 1 while a thread holds the lock. */
const LOCK = 1;
/** Gathers that an update falls into are made again; after so many, the next one keeps updates out. */
const ATTEMPTS = 3;

/**
 * Lets rows be replaced in place while other threads read them (a seqlock): readers do not stop each other, a reader that an update falls
 * into reads again, and one that updates leave no time for takes the writers' lock. A thread must not be terminated inside an update:
 * the rows would stay half written, and readers wait.
 */
export class UpdateGate {
  /** For the same gate in other threads. */
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.buffer = buffer;
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
        Atomics.wait(this.#words, SEQUENCE, before);
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
    while (Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0) Atomics.wait(this.#words, LOCK, 1);
  }

  #unlock(): void {
    Atomics.store(this.#words, LOCK, 0);
    Atomics.notify(this.#words, LOCK, 1);
  }
}
