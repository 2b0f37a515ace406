import {
  ABANDONED,
  CLOSED,
  COMPLETION,
  DRAINING,
  LIFECYCLE,
  SLEEPING,
  slotAt,
  STATUS_FAILED,
  STATUS_OK,
} from "../../src/shared/ring-protocol.ts";
import type { RingShape } from "../../src/shared/ring-protocol.ts";
import type { Steps, Thread, ThreadEvent } from "./atomic-steps.ts";
import type { ModelMemory } from "./memory.ts";
import { hintAt, SAID, saidAt, UNSAID, WAKES_ALL, WAKES_HURRIED } from "./memory.ts";
import type { Protocol } from "./protocol.ts";
import type { RingWorld } from "./ring-world.ts";

export interface ConsumerState {
  phase: "next" | "asleep" | "asleepUntil" | "completes" | "awaitsRows" | "runs" | "ended";
  /** Sequence of the batch to run next. */
  head: number;
  /** Rows of the batch that was closed. */
  rows: number;
}

export type ConsumerMistake = "forgets what is unsaid" | "loses a wake";

export interface ConsumerOptions {
  /** Whether the policy may also wait for more rows, for some time; else each batch is closed at once. */
  readonly waitsForMore: boolean;
  /** Whether a run may also fail. */
  readonly runsFail: boolean;
  /** Whether numbers of dead producers are freed. */
  readonly reusesNumbers: boolean;
  /** Whether the policy waits until the batch is full or has an item in a hurry; else each batch is closed at some time. */
  readonly waitsForHurried: boolean;
  /** It sleeps as if rows whose items are not said were none in a hurry; it says once more that it sleeps, whether it was woken or not. */
  readonly mistake: ConsumerMistake | undefined;
}

const EVENTS: Readonly<Record<ConsumerState["phase"], readonly ThreadEvent[]>> = {
  next: [{ name: "next", when: "always", wait: 0 }],
  asleep: [{ name: "wakes", when: "notified", wait: 0 }],
  asleepUntil: [
    { name: "wakes", when: "notified", wait: 0 },
    { name: "time is up", when: "waiting", wait: 0 },
  ],
  completes: [{ name: "completes", when: "always", wait: 0 }],
  awaitsRows: [],
  runs: [{ name: "runs", when: "always", wait: 0 }],
  ended: [],
};

/**
 * The consumer's thread as `RingConsumer` has it, without looks before sleeps and with a policy that decides either way.
 * It waits for rows without the time limit that `RingConsumer` has there, so that a wake that is missing is found.
 */
export function consumerThread(
  protocol: Protocol,
  ring: RingShape,
  { control, numbers, rows: said }: ModelMemory,
  options: ConsumerOptions,
): Thread<ConsumerState, RingWorld> {
  return {
    name: "consumer",
    initial: { phase: "next", head: 0, rows: 0 },
    events: ({ phase, head }) =>
      phase === "awaitsRows" ? [{ name: "completes", when: "notified", wait: 1 + (head % ring.slots) }] : EVENTS[phase],
    handle: (state, event, steps) => {
      const slot = state.head % ring.slots;
      switch (event) {
        case "completes":
          return complete(state, slot, steps);
        case "runs":
          return run(state, slot, steps);
        case "next":
          return next(state, steps);
        default:
          Atomics.store(control, SLEEPING, 0);
          state.phase = "next";
      }
    },
  };

  function next(state: ConsumerState, steps: Steps<RingWorld>): void {
    // Looked at in memory that may be some steps behind.
    if (options.reusesNumbers && protocol.hasBuried(numbers) && steps.choose(2) === 1) {
      protocol.freeBuried(control, ring, numbers);
    }
    const lifecycle = Atomics.load(control, LIFECYCLE);
    if (lifecycle >= CLOSED) {
      state.phase = "ended";
      return;
    }
    const word = protocol.wordAt(control, ring, state.head);
    const rows = protocol.rowsOf(word);
    if (!protocol.isClosed(word)) {
      if (rows === 0) {
        if (lifecycle === DRAINING) {
          protocol.raiseLifecycle(control, ring, CLOSED);
          state.phase = "ended";
          return;
        }
        sleep(state, steps, 1, "asleep");
        return;
      }
      if (lifecycle !== DRAINING && options.waitsForHurried && rows < ring.rows && look(state, rows) !== "hurried") {
        Atomics.store(said, hintAt(), WAKES_HURRIED);
        sleep(state, steps, ring.rows, "asleep");
        return;
      }
      if (lifecycle !== DRAINING && options.waitsForMore && rows < ring.rows && steps.choose(2) === 1) {
        sleep(state, steps, rows + 1, "asleepUntil");
        return;
      }
    }
    state.rows = protocol.close(control, ring, state.head);
    state.phase = "completes";
  }

  function sleep(state: ConsumerState, steps: Steps<RingWorld>, rows: number, phase: ConsumerState["phase"]): void {
    if (!protocol.fallAsleep(control, ring, state.head, rows)) {
      return;
    }
    if (Atomics.load(control, LIFECYCLE) >= DRAINING || isCalled(state)) {
      Atomics.store(control, SLEEPING, 0);
      return;
    }
    if (steps.waitFor(0, SLEEPING, 1)) {
      state.phase = phase;
    } else {
      Atomics.store(control, SLEEPING, 0);
    }
  }

  /** What is known of the items of a batch: `unsaid` if that is not all of them. */
  function look({ head }: ConsumerState, rows: number): "hurried" | "unsaid" | "none" {
    for (let row = 0; row < rows; row += 1) {
      const what = Atomics.load(said, saidAt(ring, head % ring.slots, row));
      if (what !== SAID) {
        return what === UNSAID ? "unsaid" : "hurried";
      }
    }
    return "none";
  }

  function isCalled(state: ConsumerState): boolean {
    if (options.reusesNumbers && protocol.hasBuried(numbers)) {
      return true;
    }
    if (!options.waitsForHurried) {
      return false;
    }
    const rowsNow = (): number => protocol.rowsOf(protocol.wordAt(control, ring, state.head));
    const seen = look(state, rowsNow());
    if (seen !== "unsaid" || options.mistake === "forgets what is unsaid") {
      return seen === "hurried";
    }
    Atomics.store(said, hintAt(), WAKES_ALL);
    if (options.mistake === "loses a wake") {
      Atomics.store(control, SLEEPING, 1);
      return look(state, rowsNow()) === "hurried";
    }
    return Atomics.compareExchange(control, SLEEPING, 1, 1) === 0 || look(state, rowsNow()) === "hurried";
  }

  function complete(state: ConsumerState, slot: number, steps: Steps<RingWorld>): void {
    const at = slotAt(ring, slot) + COMPLETION;
    const seen = Atomics.load(control, at);
    if (protocol.isComplete(control, ring, slot, state.rows)) {
      state.phase = "runs";
    } else {
      state.phase = steps.waitFor(1 + slot, at, seen) ? "awaitsRows" : "completes";
    }
  }

  function run(state: ConsumerState, slot: number, steps: Steps<RingWorld>): void {
    const { head, rows } = state;
    let status = STATUS_OK;
    if (Atomics.load(control, slotAt(ring, slot) + ABANDONED) < rows) {
      steps.effect((world) => world.runBegins(slot, rows));
      if (options.runsFail && steps.choose(2) === 1) {
        status = STATUS_FAILED;
      } else {
        steps.data();
        steps.effect((world) => world.runEnds(slot, rows));
      }
    }
    if (options.waitsForHurried) {
      for (let row = 0; row < rows; row += 1) {
        Atomics.store(said, saidAt(ring, slot, row), UNSAID);
      }
    }
    const participants = protocol.takeParticipants(control, ring, slot);
    protocol.publish(control, ring, head, participants, status);
    Object.assign(state, { phase: "next", head: head + 1, rows: 0 });
  }
}

/** The consumer's waits: its sleep, then one for each slot's rows. */
export function consumerWaits(ring: RingShape): number[] {
  return [SLEEPING, ...Array.from({ length: ring.slots }, (_, slot) => slotAt(ring, slot) + COMPLETION)];
}
