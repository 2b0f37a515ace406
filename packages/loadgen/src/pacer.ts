import { Worker } from "node:worker_threads";
import { besideThis } from "./entry-file.ts";

/** Says when sends of a schedule are due. */
export interface Pacer {
  /** Calls `onDue` soon after each time of the schedule has come; several times may share one call. */
  start(onDue: () => void): void;
  stop(): void;
}

/** What the pacer's thread gets. */
export interface PacerData {
  /** Monotonic microseconds, ascending. */
  readonly schedule: Float64Array<SharedArrayBuffer>;
  /** [0]: rises with every wake-up; [1]: 1 tells the thread to end. */
  readonly cell: Int32Array<SharedArrayBuffer>;
  /** Shortest time between two wake-ups: bounds their cost where sends are closer than that. */
  readonly minGapMicros: number;
}

export const WAKE_UPS = 0;
export const STOP = 1;

/** Default of {@link PacerData.minGapMicros}: adds at most this to the send lag. */
const MIN_GAP_MICROS = 50;

/**
 * A pacer with a thread of its own that sleeps until the next send, to some 50 µs: Node's timers are good to a
 * millisecond only, and a loop that spins would burn the CPU that is to be measured.
 *
 * The thread runs until the schedule is over or `stop` is called.
 */
export class ThreadPacer implements Pacer {
  readonly #schedule: Float64Array<SharedArrayBuffer>;
  readonly #cell = new Int32Array(new SharedArrayBuffer(8));
  #worker: Worker | undefined;
  #onDue: () => void = () => {};

  constructor(schedule: Float64Array<SharedArrayBuffer>) {
    this.#schedule = schedule;
  }

  start(onDue: () => void): void {
    this.#onDue = onDue;
    const data: PacerData = { schedule: this.#schedule, cell: this.#cell, minGapMicros: MIN_GAP_MICROS };
    this.#worker = new Worker(besideThis(import.meta.url, "pacer-thread"), { workerData: data });
    this.#worker.on("error", (error) => {
      throw error;
    });
    this.#listen(0);
  }

  stop(): void {
    Atomics.store(this.#cell, STOP, 1);
    Atomics.notify(this.#cell, STOP);
    Atomics.add(this.#cell, WAKE_UPS, 1);
    Atomics.notify(this.#cell, WAKE_UPS);
  }

  /** Waits for the counter to differ from `seen`. */
  #listen(seen: number): void {
    const waiting = Atomics.waitAsync(this.#cell, WAKE_UPS, seen);
    if (waiting.async) void waiting.value.then(() => this.#woken());
    // It differs already. Sockets get their turn first.
    else setImmediate(() => this.#woken());
  }

  #woken(): void {
    if (Atomics.load(this.#cell, STOP) === 1) return;
    const seen = Atomics.load(this.#cell, WAKE_UPS);
    this.#onDue();
    this.#listen(seen);
  }
}
