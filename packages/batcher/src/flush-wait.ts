import type { Clock, TimerHandle } from "./clock.ts";
import type { FlushDecision } from "./flush-policy.ts";
import { DEADLINE_MARGIN } from "./flush-policy.ts";

type Wait = FlushDecision & { readonly flush: false };

/** The wait for more items that the policy has decided for, if there is one: what ends it, and its timer. */
export class FlushWait {
  readonly #clock: Clock;
  readonly #onTime: () => void;
  #wait: Wait | undefined;
  /** Armed iff there is a wait and this is finite. */
  #timerAtMs = Infinity;
  #timer: TimerHandle;

  constructor(clock: Clock, onTime: () => void) {
    this.#clock = clock;
    this.#onTime = onTime;
  }

  /** Waits until this time at most. */
  begin(wait: Wait, untilMs: number, nowMs: number): void {
    this.#wait = wait;
    this.#timerAtMs = untilMs;
    if (untilMs < Infinity) {
      this.#timer = this.#clock.schedule(this.#onTime, untilMs - nowMs, true);
    }
  }

  /** Whether it goes on with so much in the queue, of which the newest has this deadline. */
  goesOn(items: number, size: number, deadlineAtMs: number): boolean {
    const wait = this.#wait;
    return (
      wait !== undefined &&
      items < wait.untilItems &&
      size < wait.untilSize &&
      deadlineAtMs - wait.runMs * DEADLINE_MARGIN >= this.#timerAtMs
    );
  }

  stop(): void {
    if (this.#wait !== undefined) {
      this.#wait = undefined;
      if (this.#timerAtMs < Infinity) {
        this.#clock.cancel(this.#timer);
      }
      this.#timerAtMs = Infinity;
    }
  }
}
