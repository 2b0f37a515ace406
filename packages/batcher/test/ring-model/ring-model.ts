import type { RingShape } from "../../src/shared/ring-protocol.ts";
import {
  controlWords,
  initialize,
  JOINED,
  LIFECYCLE,
  OPEN,
  OPEN_SEQUENCE,
  CLOSED,
  COMPLETION,
  ABANDONED,
  DEAD,
  STATUS,
} from "../../src/shared/ring-protocol.ts";
import type { Move, Operation, Position } from "./atomic-steps.ts";
import { steppedCalls, SteppedThread } from "./atomic-steps.ts";
import type { ConsumerMistake, ConsumerState } from "./consumer-thread.ts";
import { consumerThread, consumerWaits } from "./consumer-thread.ts";
import { buryingThread, endingThread } from "./owner-thread.ts";
import { memoryOf } from "./memory.ts";
import type { ModelItem, ProducerState } from "./producer-thread.ts";
import { producerThread, producerWaits } from "./producer-thread.ts";
import type { Protocol } from "./protocol.ts";
import { fail, RingWorld } from "./ring-world.ts";
import type { ThreadsModel } from "./walk.ts";
import { slotStateOf } from "./slot-states.ts";
import { StateLayout } from "./state-layout.ts";

/** Who takes part, and what may happen. */
export interface RingCase {
  readonly name: string;
  readonly slots: number;
  readonly rows: number;
  /** The items of each producer. */
  readonly producers: readonly (readonly ModelItem[])[];
  readonly end?: "drain" | "close";
  /** Who may die, once, at any step; the ring is told at any time after. */
  readonly mortal?: number | "consumer";
  readonly waitsForMore?: boolean;
  readonly runsFail?: boolean;
  /** Items of a producer that joins at any time, in place of the one that may die: numbers are freed, and burials come twice. */
  readonly heir?: readonly ModelItem[];
  /** The policy waits until a batch is full or has an item in a hurry; of each item `hurries` says whether it is. */
  readonly waitsForHurried?: boolean;
  /** A mistake of the consumer's: see `ConsumerOptions`. */
  readonly mistake?: ConsumerMistake;
  /**
   * How often in all a thread may be interrupted inside a handler (a submit, a look at results, a step of the consumer's
   * loop). Between two handlers any thread may go on. Without it: at every operation, as often as may be.
   */
  readonly interruptions?: number;
}

type Stepped = SteppedThread<never, RingWorld>;

/** A step is a thread and an event or a result that is chosen, 0 where there is none. */
const STEP_BITS = 5;
const KILL = 1 << 10;
const DEAD_POSITION = -1;

/** A ring with its threads as a model to be searched. */
export class RingModel implements ThreadsModel {
  readonly words: number;
  /** What has become of items in the ends that were reached. */
  readonly outcomes: Set<string> = new Set();
  readonly #case: RingCase;
  readonly #ring: RingShape;
  readonly #layout: StateLayout;
  readonly #world: RingWorld;
  readonly #threads: Stepped[];
  readonly #consumer: number;
  readonly #undertaker: number;
  readonly #mortal: number;

  constructor(ringCase: RingCase, realProtocol: Protocol) {
    const protocol = steppedCalls(realProtocol);
    const { slots, rows, producers, end, mortal, heir } = ringCase;
    const { waitsForMore = false, runsFail = false, waitsForHurried = false, mistake } = ringCase;
    const reusesNumbers = heir !== undefined;
    const all = heir === undefined ? producers : [...producers, heir];
    const ring = { slots, rows, producers: producers.length };
    // Handed to the protocol, which hands it on to `Atomics`: the state that is changed is the model's.
    const memory = memoryOf(ring);
    const options = { waitsForMore, runsFail, reusesNumbers, waitsForHurried, mistake };
    const threads = [
      ...all.map((items, id) => producerThread(protocol, ring, memory, id, items)),
      consumerThread(protocol, ring, memory, options),
      endingThread(protocol, ring, memory.control, end),
      buryingThread(protocol, ring, memory, mortal, reusesNumbers),
    ];
    this.#case = ringCase;
    this.#ring = ring;
    this.#consumer = all.length;
    this.#undertaker = threads.length - 1;
    this.#mortal = mortal === undefined ? -1 : mortal === "consumer" ? this.#consumer : mortal;
    this.#threads = threads.map((thread) => new SteppedThread(thread as never) as unknown as Stepped);
    const layout = new StateLayout(ring, threads.length, typeof mortal === "number" ? mortal : -1, reusesNumbers);
    this.#layout = layout;
    this.words = layout.words;
    const waits = threads.flatMap((_, thread) =>
      (thread < this.#consumer ? producerWaits(ring) : thread === this.#consumer ? consumerWaits(ring) : []).map(
        (word, wait) => ({ thread, wait, word: layout.control(word) }),
      ),
    );
    this.#world = new RingWorld(layout, waits, constantWords(ringCase, layout));
  }

  writeInitial(state: Int32Array): void {
    const control = new Int32Array(controlWords(this.#ring));
    initialize(control, this.#ring);
    for (const [word, value] of control.entries()) {
      if (value !== 0) {
        state[this.#layout.control(word)] = value;
      }
    }
    state[this.#layout.control(JOINED)] = (1 << this.#ring.producers) - 1;
    for (const [i, stepped] of this.#threads.entries()) {
      state[this.#layout.position(i)] = stepped.between(JSON.stringify(stepped.thread.initial)).id;
    }
  }

  stepsOf(state: Int32Array, steps: Int32Array): number {
    let count = 0;
    const running = (state[this.#layout.running] as number) - 1;
    const only = running >= 0 && state[this.#layout.interruptions] === this.#case.interruptions ? running : -1;
    for (let thread = 0; thread < this.#threads.length; thread += 1) {
      if (only >= 0 && thread !== only) {
        continue;
      }
      const position = this.#positionOf(state, thread);
      if (position === undefined) {
        continue;
      }
      const { operation, events } = position;
      const results = operation === undefined ? events.length : operation.kind === "choose" ? operation.value : 1;
      for (let i = 0; i < results; i += 1) {
        if (operation !== undefined || this.#isReady(state, thread, position, i)) {
          steps[count] = (thread << STEP_BITS) | i;
          count += 1;
        }
      }
    }
    if (this.#mayDie(state)) {
      steps[count] = KILL;
      count += 1;
    }
    return count;
  }

  take(from: Int32Array, state: Int32Array, step: number): void {
    this.#world.state = state;
    this.#world.changed = false;
    if (step === KILL) {
      this.#kill(state);
      return;
    }
    const thread = step >> STEP_BITS;
    const chosen = step & ((1 << STEP_BITS) - 1);
    const stepped = this.#threads[thread] as Stepped;
    let position = this.#positionOf(state, thread) as Position<RingWorld>;
    if (position.operation === undefined) {
      const { when, wait } = position.events[chosen] as Position<RingWorld>["events"][number];
      if (when !== "always") {
        state[this.#layout.waits(thread)] = (state[this.#layout.waits(thread)] as number) & ~(3 << (wait * 2));
      }
      position = this.#follow(stepped.begin(position, chosen));
    }
    // The first operation of a handler belongs to the step that begins it: until then nothing has happened. And so do
    // operations that nobody else can tell from none.
    for (let visible = false; position.operation !== undefined;) {
      const { operation } = position;
      if (!this.#isSilent(operation)) {
        if (visible) {
          break;
        }
        visible = true;
      }
      const result = operation.kind === "choose" ? chosen : this.#world.perform(thread, operation);
      position = this.#follow(stepped.after(position, result));
    }
    state[this.#layout.position(thread)] = position.id;
    if (this.#case.interruptions !== undefined) {
      this.#countInterruptions(state, thread, position);
    }
    if (this.#world.changed) {
      this.#world.checkStep(from);
    }
    if (this.#world.changed || thread === this.#consumer) {
      this.#forgetCompletion(state);
    }
  }

  checkEnd(state: Int32Array): void {
    this.#world.state = state;
    const outcomes: string[] = [];
    for (let thread = 0; thread < this.#consumer; thread += 1) {
      if (state[this.#layout.position(thread)] !== DEAD_POSITION) {
        for (const [i, { phase }] of (this.#stateOf(state, thread) as ProducerState).items.entries()) {
          const mayStay = this.#case.waitsForHurried === true && this.#itemOf(thread, i).hurries === false;
          if (phase === "waiting" || (phase === "inRing" && !mayStay)) {
            fail("no-lost-wake", `item ${i} of producer ${thread} is ${phase} and nothing can happen any more`);
          }
          outcomes.push(phase);
          this.outcomes.add(phase);
        }
      }
    }
    const lifecycle = state[this.#layout.control(LIFECYCLE)] as number;
    if (state[this.#layout.position(this.#consumer)] !== DEAD_POSITION) {
      const { phase, head } = this.#stateOf(state, this.#consumer) as ConsumerState;
      const open = state[this.#layout.control(OPEN_SEQUENCE)] as number;
      const slot = slotStateOf(this.#layout, state, head % this.#ring.slots);
      const rows = this.#world.rowsOf(head % this.#ring.slots);
      const has = outcomes.includes("inRing") ? rows > 0 && rows < this.#ring.rows : rows === 0;
      const idle = phase === "asleep" && head === open && slot === "open" && has && lifecycle === OPEN;
      if (!idle && !(phase === "ended" && lifecycle >= CLOSED)) {
        fail("no-lost-wake", `the consumer is ${phase} at batch ${head}, whose slot is ${slot} and has ${rows} rows`);
      }
    }
    if (state[this.#layout.buried] !== 0) {
      fail("no-lost-wake", "the number of a producer that was buried is not freed, and nothing can happen any more");
    }
    // Rows that came after the end stay where they are, as all does when the ring is closed.
    if (outcomes.includes("inRing")) {
      return;
    }
    if (this.#case.end !== "close" && !outcomes.includes("closed") && !outcomes.includes("consumer_gone")) {
      if (state[this.#layout.position(this.#consumer)] !== DEAD_POSITION) {
        this.#world.checkCounts();
      }
    }
  }

  #itemOf(thread: number, i: number): ModelItem {
    return (this.#case.producers[thread] ?? this.#case.heir)?.[i] as ModelItem;
  }

  threadOf(step: number): number {
    return step === KILL ? -1 : step >> STEP_BITS;
  }

  describe(state: Int32Array, step: number): string {
    if (step === KILL) {
      return `${(this.#threads[this.#mortal] as Stepped).thread.name} dies`;
    }
    const thread = step >> STEP_BITS;
    const chosen = step & ((1 << STEP_BITS) - 1);
    const stepped = this.#threads[thread] as Stepped;
    let position = this.#positionOf(state, thread) as Position<RingWorld>;
    let text = stepped.thread.name;
    if (position.operation === undefined) {
      text += `: ${position.events[chosen]?.name ?? ""}:`;
      ({ position } = stepped.begin(position, chosen));
    }
    const { operation } = position;
    if (operation === undefined) {
      return text;
    }
    const { kind, word, value, other } = operation;
    const held =
      kind === "choose" || kind === "data"
        ? ""
        : ` [${this.#layout.nameOf(word)}=${state[this.#layout.control(word)]}]`;
    return `${text} ${kind}${held} ${kind === "choose" ? chosen : value}${kind === "compareExchange" ? `→${other}` : ""}`;
  }

  #positionOf(state: Int32Array, thread: number): Position<RingWorld> | undefined {
    return (this.#threads[thread] as Stepped).positions[state[this.#layout.position(thread)] as number];
  }

  #stateOf(state: Int32Array, thread: number): unknown {
    return JSON.parse((this.#positionOf(state, thread) as Position<RingWorld>).state);
  }

  #isReady(state: Int32Array, thread: number, { events }: Position<RingWorld>, event: number): boolean {
    const { when, wait } = events[event] as Position<RingWorld>["events"][number];
    const waits = ((state[this.#layout.waits(thread)] as number) >>> (wait * 2)) & 3;
    return when === "always" || (when === "notified" ? (waits & 2) !== 0 : (waits & 1) !== 0);
  }

  /**
   * A notification belongs to the change before it: one who begins to wait in between has seen the change, and would be
   * woken for nothing. Where threads die it is a step of its own, as they may die before it.
   */
  #isSilent({ kind, word }: Operation): boolean {
    return kind === "notify" ? this.#mortal < 0 : (kind === "load" || kind === "store") && this.#world.isConstant(word);
  }

  #countInterruptions(state: Int32Array, thread: number, position: Position<RingWorld>): void {
    const { running, interruptions } = this.#layout;
    const before = (state[running] as number) - 1;
    if (before >= 0 && before !== thread) {
      state[interruptions] = (state[interruptions] as number) + 1;
    }
    state[running] = position.operation === undefined ? 0 : thread + 1;
  }

  /** `COMPLETION` only counts from when the consumer looks at it until it waits. */
  #forgetCompletion(state: Int32Array): void {
    const consumer = this.#positionOf(state, this.#consumer);
    if (consumer === undefined || consumer.event !== "completes") {
      for (let slot = 0; slot < this.#ring.slots; slot += 1) {
        state[this.#layout.slot(slot, COMPLETION)] = 0;
      }
    }
  }

  #follow(move: Move<RingWorld>): Position<RingWorld> {
    for (const effect of move.effects) {
      this.#world.changed = true;
      effect(this.#world);
    }
    return move.position;
  }

  #mayDie(state: Int32Array): boolean {
    if (this.#mortal < 0 || state[this.#layout.killed] !== 0) {
      return false;
    }
    return state[this.#layout.position(this.#mortal)] !== DEAD_POSITION;
  }

  #kill(state: Int32Array): void {
    state[this.#layout.position(this.#mortal)] = DEAD_POSITION;
    state[this.#layout.waits(this.#mortal)] = 0;
    state[this.#layout.killed] = 1 << this.#mortal;
    if (state[this.#layout.running] === this.#mortal + 1) {
      state[this.#layout.running] = 0;
    }
    const undertaker = this.#threads[this.#undertaker] as Stepped;
    state[this.#layout.position(this.#undertaker)] = undertaker.between(JSON.stringify({ phase: "buries" })).id;
  }
}

/** Words that stay as they are, as what would change them is no part of the case. */
function constantWords({ producers, end, mortal, runsFail, slots }: RingCase, layout: StateLayout): Set<number> {
  const constant = new Set<number>();
  if (end === undefined && mortal !== "consumer") {
    constant.add(layout.control(LIFECYCLE));
  }
  if (typeof mortal !== "number") {
    constant.add(layout.control(DEAD));
  }
  const areGivenUp = producers.flat().some(({ may, throws }) => may !== undefined || throws === true);
  for (let slot = 0; slot < slots; slot += 1) {
    if (runsFail !== true) {
      constant.add(layout.slot(slot, STATUS));
    }
    if (!areGivenUp) {
      constant.add(layout.slot(slot, ABANDONED));
    }
  }
  return constant;
}
