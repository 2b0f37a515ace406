import {
  CLOSED,
  CONSUMER_GONE,
  DRAINING,
  LIFECYCLE,
  OPEN,
  OPEN_SEQUENCE,
  PUBLISHED,
  SLEEPING,
  slotAt,
  STATUS,
  STATUS_OK,
} from "../../src/shared/ring-protocol.ts";
import type { RingShape } from "../../src/shared/ring-protocol.ts";
import type { Steps, Thread, ThreadEvent } from "./atomic-steps.ts";
import type { ModelMemory } from "./memory.ts";
import { hintAt, SAID, SAID_HURRIED, saidAt, WAKES_ALL, WAKES_HURRIED } from "./memory.ts";
import type { Protocol } from "./protocol.ts";
import { itemCode } from "./item-codes.ts";
import { fail } from "./ring-world.ts";
import type { Outcome, RingWorld } from "./ring-world.ts";

/** An item that a producer puts in, and what befalls it at any time until it is answered. */
export interface ModelItem {
  readonly size: number;
  readonly may?: "cancel" | "expire";
  /** Its `write` throws: it is given up between `reserve` and `commit`. */
  readonly throws?: boolean;
  /** Its deadline is nearer than the end of any wait for more. */
  readonly hurries?: boolean;
}

interface ItemState {
  phase: "new" | "waiting" | "inRing" | Outcome;
  slot: number;
  row: number;
}

export interface ProducerState {
  /** What the ring's words know it by: -1 before it has joined, -2 if it could not. */
  number: number;
  items: ItemState[];
  /** Of each slot: rows put in there are waited for; `PUBLISHED` when that began. */
  watched: boolean[];
  before: number[];
  awaitsRoom: boolean;
  /** What is to be done before the thread's event loop goes on. */
  soon: string[];
  ended: boolean;
}

/**
 * A producer's thread as `RingProducer`, `RingPort` and `ResultWatch` have it, without looks before sleeps: its items,
 * the slots that it watches, its wait for room, and an event loop that takes what is ready in any order.
 */
export function producerThread(
  protocol: Protocol,
  ring: RingShape,
  memory: ModelMemory,
  id: number,
  items: readonly ModelItem[],
): Thread<ProducerState, RingWorld> {
  return {
    name: `producer ${id}`,
    initial: {
      // One beyond those that are there from the beginning has yet to join.
      number: id < ring.producers ? id : -1,
      items: items.map(() => ({ phase: "new", slot: -1, row: -1 })),
      watched: Array.from({ length: ring.slots }, () => false),
      before: Array.from({ length: ring.slots }, () => 0),
      awaitsRoom: false,
      soon: [],
      ended: false,
    },
    events: (state) => eventsOf(state, items, ring),
    handle: (state, event, steps) => new ProducerHandler(protocol, ring, memory, id, items, state, steps).handle(event),
  };
}

/** The producer's waits: one for each slot's `PUBLISHED`, then the one for room. */
export function producerWaits(ring: RingShape): number[] {
  return [...Array.from({ length: ring.slots }, (_, slot) => slotAt(ring, slot) + PUBLISHED), OPEN_SEQUENCE];
}

function eventsOf({ number, items, soon }: ProducerState, given: readonly ModelItem[], ring: RingShape): ThreadEvent[] {
  const events: ThreadEvent[] = [];
  const always = (name: string): void => void events.push({ name, when: "always", wait: 0 });
  if (number === -1) {
    always("join");
    return events;
  }
  const next = items.findIndex(({ phase }) => phase === "new");
  if (next >= 0) {
    always(`submit ${next}`);
  }
  for (const [i, { phase }] of items.entries()) {
    const may = given[i]?.may;
    if (may !== undefined && (phase === "waiting" || phase === "inRing")) {
      always(`${may} ${i}`);
    }
  }
  soon.forEach(always);
  if (soon.length === 0) {
    for (let slot = 0; slot < ring.slots; slot += 1) {
      events.push({ name: `check ${slot}`, when: "notified", wait: slot });
    }
    events.push({ name: "again", when: "notified", wait: ring.slots });
  }
  return events;
}

class ProducerHandler {
  readonly #protocol: Protocol;
  readonly #ring: RingShape;
  readonly #memory: ModelMemory;
  readonly #control: Int32Array;
  readonly #id: number;
  readonly #given: readonly ModelItem[];
  readonly #state: ProducerState;
  readonly #steps: Steps<RingWorld>;

  constructor(
    protocol: Protocol,
    ring: RingShape,
    memory: ModelMemory,
    id: number,
    given: readonly ModelItem[],
    state: ProducerState,
    steps: Steps<RingWorld>,
  ) {
    this.#protocol = protocol;
    this.#ring = ring;
    this.#memory = memory;
    this.#control = memory.control;
    this.#id = id;
    this.#given = given;
    this.#state = state;
    this.#steps = steps;
  }

  handle(event: string): void {
    const [what = "", number = ""] = event.split(" ");
    const at = Number(number);
    this.#state.soon = this.#state.soon.filter((other) => other !== event);
    switch (what) {
      case "join":
        return this.#join();
      case "submit":
        return this.#submit(at);
      case "cancel":
        return this.#giveUp(at, "cancelled");
      case "expire":
        return this.#giveUp(at, "deadline_exceeded");
      case "sleep":
        return this.#sleepOn(at);
      case "check":
        return this.#check(at);
      default:
        return this.#again();
    }
  }

  #join(): void {
    const id = this.#protocol.takeNumber(this.#control, this.#ring, this.#memory.numbers);
    if (id >= 0) {
      this.#state.number = this.#protocol.numberOf(id);
      return;
    }
    this.#state.number = -2;
    for (let i = 0; i < this.#given.length; i += 1) {
      this.#answer(i, "overloaded");
    }
  }

  #submit(i: number): void {
    const refused = this.#endedWith();
    if (refused !== undefined) {
      this.#answer(i, refused);
    } else if (this.#state.items.some(({ phase }) => phase === "waiting") || !this.#place(i)) {
      this.#item(i).phase = "waiting";
      this.#awaitRoom();
    }
  }

  #endedWith(): Outcome | undefined {
    switch (Atomics.load(this.#control, LIFECYCLE)) {
      case OPEN:
        return undefined;
      case DRAINING:
        return "draining";
      case CONSUMER_GONE:
        return "consumer_gone";
      default:
        return "closed";
    }
  }

  #place(i: number): boolean {
    const { size, throws, hurries } = this.#given[i] as ModelItem;
    const place = this.#protocol.reserve(this.#control, this.#ring, this.#state.number, size);
    if (place === this.#protocol.FULL) {
      return false;
    }
    const slot = this.#protocol.slotOfPlace(place);
    const row = this.#protocol.rowOfPlace(place);
    const code = itemCode(this.#id, i);
    this.#steps.effect((world) => world.given(code, slot, row, size));
    Object.assign(this.#item(i), { phase: "inRing", slot, row });
    if (hurries !== undefined) {
      this.#say(slot, row, hurries);
    }
    if (!(this.#state.watched[slot] as boolean)) {
      this.#state.watched[slot] = true;
      this.#state.before[slot] = Atomics.load(this.#control, slotAt(this.#ring, slot) + PUBLISHED);
      this.#soon(`sleep ${slot}`);
    }
    this.#steps.data();
    this.#steps.effect((world) => world.written(code, slot, row, size));
    if (throws === true) {
      this.#giveUp(i, "invalid_argument");
    }
    this.#protocol.commit(this.#control, this.#ring, this.#state.number, slot, size);
    return true;
  }

  /** Tells of an item, and then wakes a consumer that waits for it. */
  #say(slot: number, row: number, hurries: boolean): void {
    const { rows } = this.#memory;
    Atomics.store(rows, saidAt(this.#ring, slot, row), hurries ? SAID_HURRIED : SAID);
    if (Atomics.load(this.#control, SLEEPING) === 1) {
      const hint = Atomics.load(rows, hintAt());
      if (hint === WAKES_ALL || (hint === WAKES_HURRIED && hurries)) {
        this.#protocol.wakeConsumer(this.#control);
      }
    }
  }

  #awaitRoom(): void {
    if (this.#state.awaitsRoom) {
      return;
    }
    const sequence = Atomics.load(this.#control, OPEN_SEQUENCE);
    const full = this.#protocol.isFullAt(this.#control, this.#ring, sequence);
    this.#state.awaitsRoom = true;
    const waits = full && this.#steps.waitFor(this.#ring.slots, OPEN_SEQUENCE, sequence);
    if (!waits || Atomics.load(this.#control, LIFECYCLE) >= CLOSED) {
      this.#soon("again");
    }
  }

  #again(): void {
    if (!this.#state.awaitsRoom) {
      return;
    }
    this.#state.awaitsRoom = false;
    if (this.#checkEnded()) {
      return;
    }
    for (const [i, { phase }] of this.#state.items.entries()) {
      if (phase === "waiting" && !this.#place(i)) {
        this.#awaitRoom();
        return;
      }
    }
  }

  #sleepOn(slot: number): void {
    if (this.#state.ended) {
      return;
    }
    const at = slotAt(this.#ring, slot) + PUBLISHED;
    const waits = this.#steps.waitFor(slot, at, this.#state.before[slot] as number);
    if (!waits || Atomics.load(this.#control, LIFECYCLE) >= CLOSED) {
      this.#soon(`check ${slot}`);
    }
  }

  #check(slot: number): void {
    if (this.#state.ended || !(this.#state.watched[slot] as boolean)) {
      return;
    }
    if (this.#isPublished(slot)) {
      this.#published(slot);
    } else if (!this.#checkEnded()) {
      this.#sleepOn(slot);
    }
  }

  #isPublished(slot: number): boolean {
    return Atomics.load(this.#control, slotAt(this.#ring, slot) + PUBLISHED) !== this.#state.before[slot];
  }

  #published(slot: number): void {
    const again = !(this.#state.watched[slot] as boolean);
    if (again || this.#state.ended) {
      const detail = `producer ${this.#id} is told of slot ${slot} ${again ? "again" : "after the end"}`;
      this.#steps.effect(() => fail("told-once", detail));
    }
    this.#state.watched[slot] = false;
    const status = slotAt(this.#ring, slot) + STATUS;
    this.#state.before[slot] = 0;
    const ok = Atomics.load(this.#control, status) === STATUS_OK;
    for (const [i, item] of this.#state.items.entries()) {
      if (item.slot === slot) {
        if (item.phase === "inRing") {
          const { row } = item;
          const { size } = this.#given[i] as ModelItem;
          const code = itemCode(this.#id, i);
          if (ok) {
            this.#steps.effect((world) => world.readsOutput(code, slot, row, size));
          }
          this.#answer(i, ok ? "ok" : "run_failed");
        }
        item.slot = -1;
        item.row = -1;
      }
    }
    this.#steps.effect((world) => world.hasRead(this.#id, slot));
    this.#protocol.release(this.#control, this.#ring, this.#state.number, slot);
  }

  #checkEnded(): boolean {
    if (Atomics.load(this.#control, LIFECYCLE) < CLOSED) {
      return false;
    }
    if (!this.#state.ended) {
      for (let slot = 0; slot < this.#ring.slots; slot += 1) {
        if ((this.#state.watched[slot] as boolean) && this.#isPublished(slot)) {
          this.#published(slot);
        }
      }
      this.#state.ended = true;
      const error = this.#endedWith() as Outcome;
      for (const [i, { phase }] of this.#state.items.entries()) {
        if (phase === "waiting" || phase === "inRing") {
          this.#answer(i, error);
        }
      }
    }
    return true;
  }

  #giveUp(i: number, outcome: Outcome): void {
    const { phase, slot } = this.#item(i);
    if (phase === "inRing") {
      const { size } = this.#given[i] as ModelItem;
      this.#protocol.abandon(this.#control, this.#ring, slot, size);
      this.#steps.effect((world) => world.gaveUp(slot, size));
    }
    this.#answer(i, outcome);
  }

  #answer(i: number, outcome: Outcome): void {
    const item = this.#item(i);
    const code = itemCode(this.#id, i);
    const { phase } = item;
    if (phase !== "new" && phase !== "waiting" && phase !== "inRing") {
      this.#steps.effect(() =>
        fail("answered-once", `item ${code}, answered with ${phase}, is answered with ${outcome}`),
      );
    }
    this.#steps.effect((world) => world.answered(code, outcome));
    item.phase = outcome;
  }

  #soon(event: string): void {
    if (!this.#state.soon.includes(event)) {
      this.#state.soon.push(event);
    }
  }

  #item(i: number): ItemState {
    return this.#state.items[i] as ItemState;
  }
}
