import type { Clock, TimerHandle } from "./clock.ts";
import type { FlushDecision } from "./flush-policy.ts";
import { DEADLINE_MARGIN } from "./flush-policy.ts";

type Wait = FlushDecision & { readonly flush: false };

/** The wait for more items that the policy has decided for, if there is one: what ends it, and its timer. */
export class FlushWait {
  readonly #clock: Clock;
  readonly #onTime: () => void;
  #wait: Wait | undefined;
  /** When it ends, by a timer or, of one that ends with the turn, when items come after that. */
  #untilMs = Infinity;
  /** Armed iff there is a wait that does not end with the turn, and its end is finite. */
  #timer: TimerHandle;
  #endsWithTurn = false;
  /** The clock will call at the end of this turn; it cannot be told to forget that. */
  #turnIsAwaited = false;

  constructor(clock: Clock, onTime: () => void) {
    this.#clock = clock;
    this.#onTime = onTime;
  }

  /** Waits until this time at most. */
  begin(wait: Wait, untilMs: number, nowMs: number): void {
    this.#wait = wait;
    this.#untilMs = untilMs;
    this.#endsWithTurn = wait.untilTurnEnds === true && this.#clock.afterTurn !== undefined;
    if (this.#endsWithTurn) {
      this.#awaitTurn();
    } else if (untilMs < Infinity) {
      this.#timer = this.#clock.schedule(this.#onTime, untilMs - nowMs, true);
    }
  }

  /** Whether it goes on with so much in the queue, of which the newest came at `nowMs` and has this deadline. */
  goesOn(nowMs: number, items: number, size: number, deadlineAtMs: number): boolean {
    const wait = this.#wait;
    if (wait === undefined || items >= wait.untilItems || size >= wait.untilSize) {
      return false;
    }
    const flushByMs = deadlineAtMs - wait.runMs * DEADLINE_MARGIN;
    return this.#endsWithTurn ? nowMs < this.#untilMs && nowMs <= flushByMs : this.#untilMs <= flushByMs;
  }

  stop(): void {
    if (this.#wait !== undefined) {
      this.#wait = undefined;
      if (!this.#endsWithTurn && this.#untilMs < Infinity) {
        this.#clock.cancel(this.#timer);
      }
      this.#untilMs = Infinity;
    }
  }

  #awaitTurn(): void {
    if (!this.#turnIsAwaited) {
      this.#turnIsAwaited = true;
      this.#clock.afterTurn?.(this.#onTurnEnd);
    }
  }

  readonly #onTurnEnd = (): void => {
    this.#turnIsAwaited = false;
    if (this.#wait !== undefined && this.#endsWithTurn) {
      this.#onTime();
    }
  };
}
