import {
  CLOSED,
  CONSUMER_GONE,
  DRAINING,
  LIFECYCLE,
  OPEN,
  OPEN_SEQUENCE,
  PUBLISHED,
  slotAt,
  STATUS,
  STATUS_OK,
} from "../../src/shared/ring-protocol.ts";
import type { RingShape } from "../../src/shared/ring-protocol.ts";
import type { Steps, Thread, ThreadEvent } from "./atomic-steps.ts";
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
}

interface ItemState {
  phase: "new" | "waiting" | "inRing" | Outcome;
  slot: number;
  row: number;
}

export interface ProducerState {
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
  control: Int32Array,
  id: number,
  items: readonly ModelItem[],
): Thread<ProducerState, RingWorld> {
  return {
    name: `producer ${id}`,
    initial: {
      items: items.map(() => ({ phase: "new", slot: -1, row: -1 })),
      watched: Array.from({ length: ring.slots }, () => false),
      before: Array.from({ length: ring.slots }, () => 0),
      awaitsRoom: false,
      soon: [],
      ended: false,
    },
    events: (state) => eventsOf(state, items, ring),
    handle: (state, event, steps) =>
      new ProducerHandler(protocol, ring, control, id, items, state, steps).handle(event),
  };
}

/** The producer's waits: one for each slot's `PUBLISHED`, then the one for room. */
export function producerWaits(ring: RingShape): number[] {
  return [...Array.from({ length: ring.slots }, (_, slot) => slotAt(ring, slot) + PUBLISHED), OPEN_SEQUENCE];
}

function eventsOf({ items, soon }: ProducerState, given: readonly ModelItem[], ring: RingShape): ThreadEvent[] {
  const events: ThreadEvent[] = [];
  const always = (name: string): void => void events.push({ name, when: "always", wait: 0 });
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
  readonly #control: Int32Array;
  readonly #id: number;
  readonly #given: readonly ModelItem[];
  readonly #state: ProducerState;
  readonly #steps: Steps<RingWorld>;

  constructor(
    protocol: Protocol,
    ring: RingShape,
    control: Int32Array,
    id: number,
    given: readonly ModelItem[],
    state: ProducerState,
    steps: Steps<RingWorld>,
  ) {
    this.#protocol = protocol;
    this.#ring = ring;
    this.#control = control;
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
    const { size, throws } = this.#given[i] as ModelItem;
    const place = this.#protocol.reserve(this.#control, this.#ring, this.#id, size);
    if (place === this.#protocol.FULL) {
      return false;
    }
    const slot = this.#protocol.slotOfPlace(place);
    const row = this.#protocol.rowOfPlace(place);
    const code = itemCode(this.#id, i);
    this.#steps.effect((world) => world.given(code, slot, row, size));
    Object.assign(this.#item(i), { phase: "inRing", slot, row });
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
    this.#protocol.commit(this.#control, this.#ring, this.#id, slot, size);
    return true;
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
    this.#protocol.release(this.#control, this.#ring, this.#id, slot);
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
