import type { Arrival } from "./arrival.ts";
import type { Clock } from "./clock.ts";
import type { FlushPolicy } from "./flush-policy.ts";

/** When items came, and what the policy is told of it. */
export class Arrivals {
  readonly #clock: Clock;
  readonly #policy: FlushPolicy;
  readonly #onTick: () => void;
  /** The last time at which items came. */
  #last: Arrival = { atMs: -Infinity, items: 0, size: 0 };
  /** When the items of this tick came; valid iff it has any. */
  #tick: Arrival | undefined;

  /** `onTick`: the first item of a tick is there. `endTick` is to be called at its end. */
  constructor(clock: Clock, policy: FlushPolicy, onTick: () => void) {
    this.#clock = clock;
    this.#policy = policy;
    this.#onTick = onTick;
  }

  /** Of this tick: the time is read once for all items that are submitted in one go. */
  ofTick(): Arrival {
    return this.#tick ?? this.#beginTick();
  }

  now(): Arrival {
    return this.at(this.#clock.now());
  }

  /** Of this moment, which is now: what comes later in this tick is not to have come before. */
  at(nowMs: number): Arrival {
    const arrival = nowMs === this.#last.atMs ? this.#last : { atMs: nowMs, items: 0, size: 0 };
    if (this.#tick !== undefined) {
      this.#tick = arrival;
    }
    return arrival;
  }

  endTick(): void {
    this.#tick = undefined;
  }

  /** Items that came then are in the queue. */
  count(arrival: Arrival, items: number, size: number): void {
    if (arrival !== this.#last) {
      this.tell();
      this.#last = arrival;
    }
    arrival.items += items;
    arrival.size += size;
  }

  /** Tells the policy what came at one time. */
  tell(): void {
    const arrival = this.#last;
    const { atMs, items, size } = arrival;
    if (items > 0) {
      this.#policy.arrived(atMs, items, size);
      arrival.items = 0;
      arrival.size = 0;
    }
  }

  #beginTick(): Arrival {
    this.#tick = this.now();
    this.#onTick();
    return this.#tick;
  }
}
