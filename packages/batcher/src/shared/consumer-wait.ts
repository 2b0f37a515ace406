import { systemClock } from "../clock.ts";
import type { AdaptiveSpin } from "./adaptive-spin.ts";
import { sharedNowMs } from "./ring-memory.ts";
import type { RingHints } from "./ring-hints.ts";
import type { RingShape } from "./ring-protocol.ts";
import {
  COMPLETION,
  DRAINING,
  fallAsleep,
  isClosed,
  isComplete,
  LIFECYCLE,
  rowsOf,
  SLEEPING,
  slotAt,
  tellLooks,
  wordAt,
} from "./ring-protocol.ts";

/** Until when the consumer waits, or how many rows in its next batch. */
export interface RowsWait {
  readonly untilMs: number;
  readonly rows: number;
  /** An item whose deadline is before this ends the wait, too. */
  readonly wakesBeforeMs: number;
}

/** There is nothing: the first item, whatever its deadline, ends the wait. */
export const UNTIL_ANY: RowsWait = { untilMs: Infinity, rows: 1, wakesBeforeMs: -Infinity };

/** Below this a wait is spent looking: going to sleep and waking takes as long. */
const SPIN_MS = 0.03;
/** As `SPIN_MS`, for a thread that has an event loop to run. */
const POLL_MS = 2;
/** A run is quick that takes no longer, milliseconds: a producer can look for its results meanwhile. */
const QUICK_RUN_MS = 0.003;
/** Of so many runs most must be. */
const MOST_QUICK_RUNS = 8;
/** How often a batch is looked at again that waits for rows of producers which may have died. */
const RECHECK_MS = 1;

/** How the consumer's thread waits: for rows of the next batch, and for those of one that is closed. */
export class ConsumerWait {
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #shape: RingShape;
  readonly #hints: RingHints;
  readonly #spin: AdaptiveSpin;
  readonly #isCalled: (wait: RowsWait) => boolean;
  /** How many of the last runs were quick: rises with each that was, falls with each that was not. */
  #quickRuns = 0;
  #toldLooks = false;

  /**
   * `isCalled`, asked after those that have something for the consumer can see that it sleeps: whether some have had it
   * before.
   */
  constructor(
    control: Int32Array<SharedArrayBuffer>,
    shape: RingShape,
    hints: RingHints,
    spin: AdaptiveSpin,
    isCalled: (wait: RowsWait) => boolean,
  ) {
    this.#control = control;
    this.#shape = shape;
    this.#hints = hints;
    this.#spin = spin;
    this.#isCalled = isCalled;
  }

  /** Waits, as long as the batch of sequence `head` is open, without blocking the event loop. May end early. */
  async forRows(head: number, wait: RowsWait): Promise<void> {
    const waitMs = wait.untilMs - sharedNowMs();
    if (waitMs < POLL_MS) {
      // Timers are too coarse for this: look again after what I/O is ready.
      await new Promise<void>((resolve) => {
        systemClock.schedule(resolve, 0, true);
      });
      return;
    }
    if (this.#fallAsleep(head, wait)) {
      const { value } = Atomics.waitAsync(this.#control, SLEEPING, 1, waitMs - POLL_MS / 2);
      await value;
      Atomics.store(this.#control, SLEEPING, 0);
    }
  }

  /** As `forRows`, blocking this thread. */
  forRowsBlocking(head: number, wait: RowsWait): void {
    const waitMs = wait.untilMs === Infinity ? Infinity : wait.untilMs - sharedNowMs();
    if (waitMs < SPIN_MS) {
      return;
    }
    if (waitMs === Infinity && this.#spin.worthwhile() && this.#lookForRows(head, wait.rows)) {
      return;
    }
    if (this.#fallAsleep(head, wait)) {
      Atomics.wait(this.#control, SLEEPING, 1, waitMs);
      Atomics.store(this.#control, SLEEPING, 0);
    }
  }

  /** Waits until all rows of a closed batch are written. */
  async forCompletion(slot: number, rows: number): Promise<void> {
    const at = slotAt(this.#shape, slot) + COMPLETION;
    for (;;) {
      const seen = Atomics.load(this.#control, at);
      if (isComplete(this.#control, this.#shape, slot, rows)) {
        return;
      }
      const { value } = Atomics.waitAsync(this.#control, at, seen, RECHECK_MS);
      await value;
    }
  }

  forCompletionBlocking(slot: number, rows: number): void {
    const at = slotAt(this.#shape, slot) + COMPLETION;
    for (;;) {
      const seen = Atomics.load(this.#control, at);
      if (isComplete(this.#control, this.#shape, slot, rows)) {
        return;
      }
      Atomics.wait(this.#control, at, seen, RECHECK_MS);
    }
  }

  /** A run took so long: producers are told whether it pays to look for results. */
  ran(runMs: number): void {
    const change = runMs <= QUICK_RUN_MS ? 1 : -1;
    this.#quickRuns = Math.min(MOST_QUICK_RUNS, Math.max(0, this.#quickRuns + change));
    if (!this.#runsQuickly()) {
      this.#tellLooks(false);
    }
  }

  /** Asked after saying that we sleep: who ends the ring wakes those that sleep then. */
  #fallAsleep(head: number, wait: RowsWait): boolean {
    this.#hints.wakesBeforeMs = wait.wakesBeforeMs;
    if (!fallAsleep(this.#control, this.#shape, head, wait.rows)) {
      return false;
    }
    if (Atomics.load(this.#control, LIFECYCLE) < DRAINING && !this.#isCalled(wait)) {
      return true;
    }
    Atomics.store(this.#control, SLEEPING, 0);
    return false;
  }

  #lookForRows(head: number, rows: number): boolean {
    this.#tellLooks(this.#runsQuickly());
    const found = this.#spin.look(() => {
      const word = wordAt(this.#control, this.#shape, head);
      return isClosed(word) || rowsOf(word) >= rows;
    });
    if (!this.#spin.looks) {
      this.#tellLooks(false);
    }
    return found;
  }

  #runsQuickly(): boolean {
    return this.#quickRuns > MOST_QUICK_RUNS / 2;
  }

  #tellLooks(looks: boolean): void {
    if (looks !== this.#toldLooks) {
      this.#toldLooks = looks;
      tellLooks(this.#control, looks);
    }
  }
}
