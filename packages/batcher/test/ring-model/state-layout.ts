import { memoryOf } from "./memory.ts";
import type { RingShape } from "../../src/shared/ring-protocol.ts";
import {
  ABANDONED,
  CELL_WORDS,
  COMPLETION,
  DEAD,
  JOINED,
  LIFECYCLE,
  OPEN_SEQUENCE,
  PUBLISHED,
  READERS,
  SLEEPING,
  slotAt,
  SLOT_WORDS,
  STATUS,
  WAKE_AT_ROWS,
  WORD,
} from "../../src/shared/ring-protocol.ts";

const HEADER = { OPEN_SEQUENCE, SLEEPING, WAKE_AT_ROWS, LIFECYCLE, DEAD, JOINED };
const SLOT = { WORD, PUBLISHED, READERS, STATUS, COMPLETION, ABANDONED };

/**
 * Where in a state's words things are: the control words that the protocol uses, without the padding between them; what
 * the model knows beside them; each thread's position and waits.
 */
export class StateLayout {
  readonly ring: RingShape;
  readonly words: number;
  /** A bit for each number whose burial is over. */
  readonly buried: number;
  /** Of a word of the memory; -1 for padding. */
  readonly #ofControl: Int32Array;
  /** The same from where a slot's words begin. */
  readonly #ofSlot: readonly Int32Array[];
  readonly #names = new Map<number, string>();
  readonly #ghosts: number;
  readonly #threads: number;
  readonly #mortal: number;
  readonly #hasHeir: boolean;

  /** `mortal`: the producer that may die, or -1. */
  constructor(ring: RingShape, threads: number, mortal: number, hasHeir: boolean) {
    this.ring = ring;
    this.#mortal = mortal;
    this.#hasHeir = hasHeir;
    const { numbers, rows } = memoryOf(ring);
    const firstNumber = numbers.byteOffset / Int32Array.BYTES_PER_ELEMENT;
    const firstRow = rows.byteOffset / Int32Array.BYTES_PER_ELEMENT;
    this.#ofControl = new Int32Array(firstRow + rows.length).fill(-1);
    let at = 0;
    const use = (word: number, name: string): void => {
      this.#ofControl[word] = at;
      this.#names.set(word, name);
      at += 1;
    };
    for (const [name, word] of Object.entries(HEADER)) {
      use(word, name);
    }
    for (let slot = 0; slot < ring.slots; slot += 1) {
      for (const [name, word] of Object.entries(SLOT)) {
        use(slotAt(ring, slot) + word, `${name} ${slot}`);
      }
      for (let producer = 0; producer < ring.producers; producer += 1) {
        use(slotAt(ring, slot) + SLOT_WORDS + producer * CELL_WORDS, `cell ${slot}.${producer}`);
      }
    }
    use(firstNumber, "BURIED");
    for (let producer = 0; producer < ring.producers; producer += 1) {
      use(firstNumber + 1 + producer, `FREED ${producer}`);
    }
    for (let i = 0; i < rows.length; i += 1) {
      use(firstRow + i, i === 0 ? "hint" : `said ${Math.floor((i - 1) / ring.rows)}.${(i - 1) % ring.rows}`);
    }
    this.buried = this.#ofControl[firstNumber] as number;
    this.#ofSlot = Array.from({ length: ring.slots }, (_, slot) => this.#ofControl.subarray(slotAt(ring, slot)));
    this.#ghosts = at;
    at += ring.slots * (1 + ring.rows) + 5;
    this.#threads = at;
    this.words = at + threads * 2;
  }

  /**
   * A bit for each producer's thread that is dead: as the ring was told, or, where its number may be another's by then, as it was
   * killed.
   */
  deadThreads(state: Int32Array): number {
    return this.#hasHeir ? (state[this.killed] as number) : (state[this.control(DEAD)] as number);
  }

  /** Of a producer's thread: the one beyond those that are there from the beginning has that of the one that dies, in time. */
  numberOf(thread: number): number {
    return thread < this.ring.producers ? thread : this.#mortal;
  }

  control(word: number): number {
    const at = this.#ofControl[word];
    if (at === undefined || at < 0) {
      throw new Error(`the protocol uses control word ${word}, which the model leaves out`);
    }
    return at;
  }

  /** Of a control word, for people. */
  nameOf(word: number): string {
    return this.#names.get(word) ?? String(word);
  }

  slot(slot: number, word: number): number {
    return this.#ofSlot[slot]?.[word] as number;
  }

  cell(slot: number, producer: number): number {
    return this.#ofSlot[slot]?.[SLOT_WORDS + producer * CELL_WORDS] as number;
  }

  /** Of a slot: whether its batch is being run, and other flags. */
  flags(slot: number): number {
    return this.#ghosts + slot * (1 + this.ring.rows);
  }

  /** Of a row: whose it is, and what was written as its input and output. */
  row(slot: number, row: number): number {
    return this.flags(slot) + 1 + row;
  }

  /** A bit for each item that was run. */
  get ran(): number {
    return this.#ghosts + this.ring.slots * (1 + this.ring.rows);
  }

  /** A bit for each item that was in the ring when it began to drain. */
  get drained(): number {
    return this.ran + 1;
  }

  /** A bit for each thread that was killed. */
  get killed(): number {
    return this.ran + 2;
  }

  /** One more than the thread whose handler is under way, if interruptions are counted; 0: none. */
  get running(): number {
    return this.ran + 3;
  }

  /** Interruptions so far, if they are counted. */
  get interruptions(): number {
    return this.ran + 4;
  }

  position(thread: number): number {
    return this.#threads + thread * 2;
  }

  /** Two bits for each of a thread's waits: it waits; it was woken. */
  waits(thread: number): number {
    return this.#threads + thread * 2 + 1;
  }
}
