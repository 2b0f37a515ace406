import { once } from "node:events";
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
  /** Ascending; read from the time of `CONTROL_GO` on, when it must be in microseconds of the monotonic clock. */
  readonly schedule: Float64Array<SharedArrayBuffer>;
  /** [WAKE_UPS] rises with every wake-up; [CONTROL] is one of the numbers below. */
  readonly cell: Int32Array<SharedArrayBuffer>;
  /** Shortest time between two wake-ups: bounds their cost where sends are closer than that. */
  readonly minGapMicros: number;
}

export const WAKE_UPS = 0;
export const CONTROL = 1;

export const CONTROL_WAIT = 0;
export const CONTROL_GO = 1;
export const CONTROL_STOP = 2;

/** Default of {@link PacerData.minGapMicros}: adds at most this to the send lag. */
const MIN_GAP_MICROS = 50;

/**
 * A pacer with a thread of its own that sleeps until the next send, to some 50 µs: Node's timers are good to a
 * millisecond only, and a loop that spins would burn the CPU that is to be measured.
 *
 * The thread is there before the first send is due, and ends with the schedule or with `stop`.
 */
export class ThreadPacer implements Pacer {
  readonly #cell: Int32Array<SharedArrayBuffer>;
  #onDue: () => void = () => {};

  private constructor(cell: Int32Array<SharedArrayBuffer>) {
    this.#cell = cell;
  }

  /** Starts the thread; resolves once it waits for `start`. */
  static async prepare(schedule: Float64Array<SharedArrayBuffer>): Promise<ThreadPacer> {
    const cell = new Int32Array(new SharedArrayBuffer(8));
    const data: PacerData = { schedule, cell, minGapMicros: MIN_GAP_MICROS };
    const worker = new Worker(besideThis(import.meta.url, "pacer-thread"), { workerData: data });
    await once(worker, "message");
    worker.unref();
    return new ThreadPacer(cell);
  }

  start(onDue: () => void): void {
    this.#onDue = onDue;
    this.#listen(Atomics.load(this.#cell, WAKE_UPS));
    this.#control(CONTROL_GO);
  }

  stop(): void {
    this.#control(CONTROL_STOP);
    // Ends the wait below, too.
    Atomics.add(this.#cell, WAKE_UPS, 1);
    Atomics.notify(this.#cell, WAKE_UPS);
  }

  #control(value: number): void {
    Atomics.store(this.#cell, CONTROL, value);
    Atomics.notify(this.#cell, CONTROL);
  }

  /** Waits for the counter to differ from `seen`. */
  #listen(seen: number): void {
    const waiting = Atomics.waitAsync(this.#cell, WAKE_UPS, seen);
    if (waiting.async) void waiting.value.then(() => this.#woken());
    // It differs already. Sockets get their turn first.
    else setImmediate(() => this.#woken());
  }

  #woken(): void {
    if (Atomics.load(this.#cell, CONTROL) === CONTROL_STOP) return;
    const seen = Atomics.load(this.#cell, WAKE_UPS);
    this.#onDue();
    this.#listen(seen);
  }
}
