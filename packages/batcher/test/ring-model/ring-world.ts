import {
  ABANDONED,
  CLOSED,
  CONSUMER_GONE,
  DEAD,
  DRAINING,
  LIFECYCLE,
  OPEN_SEQUENCE,
  READERS,
  WORD,
} from "../../src/shared/ring-protocol.ts";
import type { Operation } from "./atomic-steps.ts";
import { CODE_MASK, producerOf } from "./item-codes.ts";
import { InvariantBroken } from "./invariants.ts";
import type { InvariantName } from "./invariants.ts";
import { COMPLETE, RUNNING, SLOT_EDGES, slotStateOf } from "./slot-states.ts";
import type { StateLayout } from "./state-layout.ts";

/** Flags of a slot beside those of its state: all rows had been given up when it was closed. */
const HOPELESS = 4;
const GIVEN_UP = 1 << 8;
const GIVEN_UP_MASK = 0xff;
/** A bit for each producer that has rows there and has not read its results. */
const UNREAD = 1 << 16;

/** A row's word: the owner's code, the input's and the output's. */
const INPUT_SHIFT = 8;
const OUTPUT_SHIFT = 16;

export type Outcome =
  | "ok"
  | "run_failed"
  | "cancelled"
  | "deadline_exceeded"
  | "draining"
  | "closed"
  | "consumer_gone"
  | "invalid_argument"
  | "overloaded";

/** A wait of a thread: on this word of the state. */
export interface WaitPlace {
  readonly thread: number;
  readonly wait: number;
  readonly word: number;
}

/** Carries out operations on a state, keeps what the model knows beside it, and checks what must hold. */
export class RingWorld {
  readonly layout: StateLayout;
  state: Int32Array;
  /** Whether more than positions and waits has changed since this was set to false. */
  changed = false;
  /** Words of the state that nothing changes. */
  readonly #constant: ReadonlySet<number>;
  readonly #waitsOn: WaitPlace[][];

  constructor(layout: StateLayout, waits: readonly WaitPlace[], constant: ReadonlySet<number>) {
    this.layout = layout;
    this.#constant = constant;
    this.state = new Int32Array(layout.words);
    this.#waitsOn = Array.from({ length: layout.words }, (_, word) => waits.filter((wait) => wait.word === word));
  }

  isConstant(word: number): boolean {
    return this.#constant.has(this.layout.control(word));
  }

  /** Gives what the code gets to see. */
  perform(thread: number, { kind, word, value, other }: Operation): number {
    const { state } = this;
    if (kind === "data") {
      return 0;
    }
    const at = this.layout.control(word);
    const old = state[at] as number;
    this.changed ||= kind !== "load" && kind !== "notify" && kind !== "waitFor";
    switch (kind) {
      case "load":
        return old;
      case "store":
        if (value !== old && this.#constant.has(at)) {
          throw new Error(`control word ${word} is changed, which the model takes for constant`);
        }
        state[at] = value;
        return 0;
      case "add":
        state[at] = old + value;
        return 0;
      case "sub":
        state[at] = old - value;
        return 0;
      case "and":
        state[at] = old & value;
        return old;
      case "or":
        state[at] = old | value;
        return 0;
      case "compareExchange":
        if (old === value) {
          state[at] = other;
        }
        return old;
      case "notify":
        for (const { thread: waiting, wait } of this.#waitsOn[at] as WaitPlace[]) {
          const waits = this.layout.waits(waiting);
          if (((state[waits] as number) & (1 << (wait * 2))) !== 0) {
            state[waits] = ((state[waits] as number) & ~(1 << (wait * 2))) | (2 << (wait * 2));
          }
        }
        return 0;
      case "waitFor": {
        if (old !== value) {
          return 0;
        }
        const waits = this.layout.waits(thread);
        state[waits] = (state[waits] as number) | (1 << (other * 2));
        return 1;
      }
      default:
        throw new Error(`cannot carry out ${kind}`);
    }
  }

  /** What must hold of every step, whatever its operation. */
  checkStep(from: Int32Array): void {
    const { state, layout } = this;
    const { ring } = layout;
    const openAt = layout.control(OPEN_SEQUENCE);
    const before = from[openAt] as number;
    const open = state[openAt] as number;
    if (open !== before) {
      const over = slotStateOf(layout, from, before % ring.slots);
      const next = slotStateOf(layout, from, open % ring.slots);
      const word = from[layout.slot(open % ring.slots, WORD)] as number;
      const old = from[layout.slot(before % ring.slots, WORD)] as number;
      const stillTakes = over === "open" && old >>> 16 === before;
      if (open !== before + 1 || stillTakes || next !== "prepared" || word >>> 16 !== open) {
        fail("open-by-one", `from ${before}, whose slot is ${over}, to ${open}, whose slot is ${next}`);
      }
    }
    for (let slot = 0; slot < ring.slots; slot += 1) {
      const was = slotStateOf(layout, from, slot);
      const is = slotStateOf(layout, state, slot);
      if (was !== is && !SLOT_EDGES[was].includes(is)) {
        fail("drawn-edges", `slot ${slot} goes from ${was} to ${is}`);
      }
      if (is === "complete") {
        this.#flag(slot, COMPLETE);
      }
      this.#checkWord(from, slot, was);
    }
    const lifecycle = layout.control(LIFECYCLE);
    if (from[lifecycle] !== DRAINING && state[lifecycle] === DRAINING) {
      this.#beginsToDrain();
    }
  }

  #checkWord(from: Int32Array, slot: number, was: string): void {
    const { state, layout } = this;
    const at = layout.slot(slot, WORD);
    const old = from[at] as number;
    const word = state[at] as number;
    if (old === word) {
      return;
    }
    const rows = word & 0x7fff;
    if (old >>> 16 === word >>> 16) {
      const grows = rows > (old & 0x7fff) && rows <= layout.ring.rows && was === "open";
      const closes = word === (old | 0x8000) && rows > 0;
      if (!grows && !closes) {
        fail("drawn-edges", `slot ${slot}: ${was} with ${old & 0x7fff} rows, then ${rows}`);
      }
      if (closes && this.#givenUp(slot) >= rows) {
        this.#flag(slot, HOPELESS);
      }
      return;
    }
    const unread = ((state[layout.flags(slot)] as number) / UNREAD) & ~layout.deadThreads(state);
    if (unread !== 0) {
      fail("all-released", `slot ${slot} is prepared, and producers ${unread.toString(2)} (bits) have yet to read`);
    }
    state.fill(0, layout.flags(slot), layout.row(slot, layout.ring.rows));
  }

  /** Rows were given to an item. */
  given(code: number, slot: number, row: number, size: number): void {
    for (let i = row; i < row + size; i += 1) {
      const at = this.layout.row(slot, i);
      const owner = (this.state[at] as number) & CODE_MASK;
      if (i >= this.layout.ring.rows || owner !== 0) {
        fail("row-once", `row ${i} of slot ${slot} is given to item ${code} and was item ${owner}'s`);
      }
      this.state[at] = code;
    }
    this.#flag(slot, UNREAD << producerOf(code));
  }

  written(code: number, slot: number, row: number, size: number): void {
    for (let i = row; i < row + size; i += 1) {
      const at = this.layout.row(slot, i);
      this.state[at] = ((this.state[at] as number) & ~(CODE_MASK << INPUT_SHIFT)) | (code << INPUT_SHIFT);
    }
  }

  gaveUp(slot: number, size: number): void {
    const at = this.layout.flags(slot);
    this.state[at] = (this.state[at] as number) + GIVEN_UP * size;
  }

  runBegins(slot: number, rows: number): void {
    const { state, layout } = this;
    const dead = layout.deadThreads(state);
    let items = 0;
    for (let row = 0; row < rows; row += 1) {
      const word = state[layout.row(slot, row)] as number;
      const owner = word & CODE_MASK;
      const input = (word >>> INPUT_SHIFT) & CODE_MASK;
      const isDead = owner !== 0 && (dead & (1 << producerOf(owner))) !== 0;
      if (!isDead && (owner === 0 || input !== owner)) {
        fail("whole-batch", `row ${row} of slot ${slot} is run with input ${input}, and is item ${owner}'s`);
      }
      items |= isDead ? 0 : 1 << owner;
    }
    if (((state[layout.ran] as number) & items) !== 0) {
      fail("run-once", `of items ${items.toString(2)} (bits) some were run before`);
    }
    if (((state[layout.flags(slot)] as number) & HOPELESS) !== 0) {
      fail("given-up", `slot ${slot} is run, and all its ${rows} rows had been given up`);
    }
    state[layout.ran] = (state[layout.ran] as number) | items;
    this.#flag(slot, RUNNING);
  }

  runEnds(slot: number, rows: number): void {
    for (let row = 0; row < rows; row += 1) {
      const at = this.layout.row(slot, row);
      const word = this.state[at] as number;
      const input = (word >>> INPUT_SHIFT) & CODE_MASK;
      this.state[at] = (word & ~(CODE_MASK << OUTPUT_SHIFT)) | (input << OUTPUT_SHIFT);
    }
  }

  /** A producer has read what it wants of a slot, and releases it next. */
  hasRead(producer: number, slot: number): void {
    const at = this.layout.flags(slot);
    this.state[at] = (this.state[at] as number) & ~(UNREAD << producer);
  }

  answered(code: number, outcome: Outcome): void {
    const lifecycle = this.state[this.layout.control(LIFECYCLE)] as number;
    const killed = this.state[this.layout.killed] as number;
    const isRight =
      outcome === "draining"
        ? lifecycle >= DRAINING
        : outcome === "closed"
          ? lifecycle >= CLOSED
          : outcome === "consumer_gone"
            ? lifecycle === CONSUMER_GONE && killed !== 0
            : true;
    if (!isRight) {
      fail("right-error", `item ${code} fails with ${outcome}, and the ring's lifecycle is ${lifecycle}`);
    }
    if (outcome === "closed" && ((this.state[this.layout.drained] as number) & (1 << code)) !== 0) {
      fail("drained", `item ${code} was in the ring when it began to drain, and fails with closed`);
    }
  }

  readsOutput(code: number, slot: number, row: number, size: number): void {
    for (let i = row; i < row + size; i += 1) {
      const output = ((this.state[this.layout.row(slot, i)] as number) >>> OUTPUT_SHIFT) & CODE_MASK;
      if (output !== code) {
        fail("answered-once", `item ${code} reads the result of item ${output} in row ${i} of slot ${slot}`);
      }
    }
  }

  /** All is answered, and the ring was not ended while it had work: nothing is left behind. */
  checkCounts(): void {
    const { layout, state } = this;
    const dead = state[layout.control(DEAD)] as number;
    for (let slot = 0; slot < layout.ring.slots; slot += 1) {
      const counts = [
        ["rows", (state[layout.slot(slot, WORD)] as number) & 0xffff],
        ["readers", state[layout.slot(slot, READERS)] as number],
        ["rows given up", state[layout.slot(slot, ABANDONED)] as number],
      ] as [string, number][];
      for (let producer = 0; producer < layout.ring.producers; producer += 1) {
        const cell = state[layout.cell(slot, producer)] as number;
        // Attempts of a dead producer stay, and count for nothing.
        counts.push([`cell of producer ${producer}`, (dead & (1 << producer)) === 0 ? cell : cell & 0xffff]);
      }
      for (const [what, count] of counts) {
        if (count !== 0) {
          fail("counts-zero", `slot ${slot}: ${what} ${count}`);
        }
      }
    }
  }

  #beginsToDrain(): void {
    const { layout, state } = this;
    for (let slot = 0; slot < layout.ring.slots; slot += 1) {
      for (let row = 0; row < layout.ring.rows; row += 1) {
        const owner = (state[layout.row(slot, row)] as number) & CODE_MASK;
        state[layout.drained] = (state[layout.drained] as number) | (owner === 0 ? 0 : 1 << owner);
      }
    }
  }

  /** Rows that were taken of a slot. */
  rowsOf(slot: number): number {
    return (this.state[this.layout.slot(slot, WORD)] as number) & 0x7fff;
  }

  #givenUp(slot: number): number {
    return ((this.state[this.layout.flags(slot)] as number) / GIVEN_UP) & GIVEN_UP_MASK;
  }

  #flag(slot: number, flag: number): void {
    const at = this.layout.flags(slot);
    this.state[at] = (this.state[at] as number) | flag;
  }
}

export function fail(invariant: InvariantName, detail: string): never {
  throw new InvariantBroken(invariant, detail);
}
