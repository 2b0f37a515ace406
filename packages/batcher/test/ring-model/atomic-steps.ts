/**
 * Runs code one atomic operation at a time. Code that talks to other threads only by `Atomics` is, between two
 * operations, determined by where it began and by what its operations gave since. So a position in it is a node of a
 * tree, an operation's result leads from one to the next, and the code itself runs once for each node: from its
 * beginning, with the results so far handed to it, up to the operation after. What it does then is the caller's to carry out.
 */
export type OperationKind =
  | "load"
  | "store"
  | "add"
  | "sub"
  | "and"
  | "or"
  | "compareExchange"
  | "notify"
  /** As `Atomics.waitAsync`: gives 1 and begins to wait for `word` while it holds `value`, else gives 0. */
  | "waitFor"
  /** Any of the numbers below `value`. */
  | "choose"
  /** Memory that is read or written without `Atomics`; what happens there is told by effects. */
  | "data";

export interface Operation {
  readonly kind: OperationKind;
  readonly word: number;
  readonly value: number;
  /** Of `compareExchange`: what is stored. Of `waitFor`: which of the thread's waits it is. */
  readonly other: number;
}

/** What a step does to what the model knows beyond the memory; it may find an invariant broken. */
export type Effect<World> = (world: World) => void;

/** Something that a thread does when it is between two handlers. */
export interface ThreadEvent {
  readonly name: string;
  /** `notified`: once its wait was woken; `waiting`: while its wait is not over, as when a timer fires. Both end the wait. */
  readonly when: "always" | "notified" | "waiting";
  readonly wait: number;
}

/** A thread: handlers that go from one state to the next. States are plain data. */
export interface Thread<State, World> {
  readonly name: string;
  readonly initial: State;
  /** What it may do in a state, one of them; none: it is over, or was not started. */
  readonly events: (state: State) => readonly ThreadEvent[];
  /** Changes the state in place. */
  readonly handle: (state: State, event: string, steps: Steps<World>) => void;
}

/** What handlers do other than by `Atomics`. */
export interface Steps<World> {
  /** Belongs to the step of the operation before. */
  effect: (effect: Effect<World>) => void;
  waitFor: (wait: number, word: number, value: number) => boolean;
  choose: (below: number) => number;
  data: () => void;
}

/** What a handler has seen: results of operations, and in place of those of a call that is over what it returned. */
type Seen = number | { readonly returned: unknown };

/** A position of a thread. */
export interface Position<World> {
  readonly id: number;
  /** Undefined between two handlers. */
  readonly operation: Operation | undefined;
  /** Between two handlers: what may come. */
  readonly events: readonly ThreadEvent[];
  /** As JSON: when the handler began, or between two. */
  readonly state: string;
  /** The handler; empty between two. */
  readonly event: string;
  readonly seen: readonly Seen[];
  /** Where each result of the operation, or each event by its index, leads. */
  readonly moves: Move<World>[];
}

export interface Move<World> {
  readonly result: number;
  readonly effects: readonly Effect<World>[];
  readonly position: Position<World>;
}

/** The result of an operation whose result the protocol leaves alone; says so if that is no longer true. */
const UNUSED = {
  [Symbol.toPrimitive](): never {
    throw new Error("the result of an operation is used that the model takes for unused");
  },
} as unknown as number;

/** Thrown to leave the code at its next operation. */
const STOP = new Error("the next operation");

/** A handler on its way to its next operation. */
class Run<World> {
  readonly seen: Seen[];
  effects: Effect<World>[] = [];
  operation: Operation | undefined;
  #at = 0;

  constructor(seen: readonly Seen[]) {
    this.seen = [...seen];
  }

  step(kind: OperationKind, word: number, value: number, other: number): number {
    if (this.#at < this.seen.length) {
      this.effects = [];
      this.#at += 1;
      return this.seen[this.#at - 1] as number;
    }
    this.operation = { kind, word, value, other };
    throw STOP;
  }

  /** What came to pass in a call does not matter once it is over, but for what it returned. */
  call<Result>(call: () => Result): Result {
    const at = this.#at;
    const first = this.seen[at];
    if (typeof first === "object") {
      this.effects = [];
      this.#at += 1;
      return first.returned as Result;
    }
    const returned = call();
    this.seen.splice(at, this.#at - at, { returned });
    this.#at = at + 1;
    return returned;
  }
}

let running: Run<unknown> | undefined;

const operation =
  (kind: OperationKind, used: boolean) =>
  (array: Int32Array, index: number, value = 0, other = 0): number => {
    // Arrays are parts of one memory, of which the control words are the first.
    const word = index + array.byteOffset / Int32Array.BYTES_PER_ELEMENT;
    const result = (running as Run<unknown>).step(kind, word, value, other);
    return used ? result : UNUSED;
  };

/** Those that the code under test uses. */
const STEPPED_ATOMICS = {
  load: operation("load", true),
  and: operation("and", true),
  compareExchange: operation("compareExchange", true),
  store: operation("store", false),
  add: operation("add", false),
  sub: operation("sub", false),
  or: operation("or", false),
  notify: operation("notify", false),
};

/** Functions that, once a call is over, leave nothing behind but their result. */
export function steppedCalls<Functions extends object>(functions: Functions): Functions {
  return Object.fromEntries(
    Object.entries(functions).map(([name, value]: [string, unknown]) => [
      name,
      typeof value === "function"
        ? (...given: unknown[]) =>
            (running as Run<unknown>).call(() => (value as (...all: unknown[]) => unknown)(...given))
        : value,
    ]),
  ) as Functions;
}

export class SteppedThread<State, World> {
  readonly thread: Thread<State, World>;
  readonly positions: Position<World>[] = [];
  readonly #known = new Map<string, Position<World>>();

  constructor(thread: Thread<State, World>) {
    this.thread = thread;
  }

  /** Between two handlers, in a state. */
  between(state: string): Position<World> {
    return (
      this.#known.get(state) ??
      this.#add(state, undefined, this.thread.events(JSON.parse(state) as State), state, "", [])
    );
  }

  /** Where a handler is before its first operation, or where it has led without one. */
  begin(from: Position<World>, event: number): Move<World> {
    return find(from.moves, event) ?? this.#run(from, event, (from.events[event] as ThreadEvent).name, []);
  }

  /** Where the operation that is next leads with this result. */
  after(from: Position<World>, result: number): Move<World> {
    return find(from.moves, result) ?? this.#run(from, result, from.event, [...from.seen, result]);
  }

  #run(from: Position<World>, result: number, event: string, seen: readonly Seen[]): Move<World> {
    const run = new Run<World>(seen);
    const steps: Steps<World> = {
      effect: (effect) => run.effects.push(effect),
      waitFor: (wait, word, value) => run.step("waitFor", word, value, wait) === 1,
      choose: (below) => run.step("choose", 0, below, 0),
      data: () => void run.step("data", 0, 0, 0),
    };
    const state = JSON.parse(from.state) as State;
    const real = globalThis.Atomics;
    running = run as unknown as Run<unknown>;
    (globalThis as { Atomics: object }).Atomics = STEPPED_ATOMICS;
    let position: Position<World> | undefined;
    try {
      this.thread.handle(state, event, steps);
    } catch (error) {
      if (error !== STOP) {
        throw error;
      }
      const key = `${from.state} ${event} ${JSON.stringify(run.seen)}`;
      position = this.#known.get(key) ?? this.#add(key, run.operation, [], from.state, event, run.seen);
    } finally {
      globalThis.Atomics = real;
      running = undefined;
    }
    position ??= this.between(JSON.stringify(state));
    const move = { result, effects: run.effects, position };
    from.moves.push(move);
    return move;
  }

  #add(
    key: string,
    next: Operation | undefined,
    events: readonly ThreadEvent[],
    state: string,
    event: string,
    seen: readonly Seen[],
  ): Position<World> {
    const position = { id: this.positions.length, operation: next, events, state, event, seen, moves: [] };
    this.positions.push(position);
    this.#known.set(key, position);
    return position;
  }
}

function find<World>(moves: readonly Move<World>[], result: number): Move<World> | undefined {
  for (const move of moves) {
    if (move.result === result) {
      return move;
    }
  }
  return undefined;
}
