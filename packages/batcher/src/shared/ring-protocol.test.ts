import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { describe, expect, test } from "vitest";

/**
 * Runs ring-protocol.ts itself in the interleavings of its atomic operations. The source is turned into generators that
 * stop before each access to shared memory; a search then tries every order of steps of a few threads, and the death of
 * a thread at every step. States that were seen before are not gone into again: a state is the shared memory and, for
 * each thread, all that it has read since it last forgot, which determines where it is.
 *
 * With `DLRM_EXHAUSTIVE=1` every case is searched to its end, which takes long; else the small one is, and of the others
 * schedules are drawn from a seed.
 */
type Step = Generator<Wait | undefined, unknown, undefined>;

/** A thread goes to sleep on a word while it holds a value; `timed` sleeps also end when nothing else can happen. */
interface Wait {
  readonly word: number;
  readonly value: number;
  readonly timed: boolean;
}

type Protocol = Record<string, number> & Record<string, (...args: unknown[]) => Step>;

/** What the generators' atomic operations work on; replaced for each execution. */
interface Machine {
  readonly memory: Int32Array;
  notify: (word: number) => void;
  /** The thread that is stepping has read a value. */
  read: (value: number) => void;
  /** The thread that is stepping is where only `state` matters of all that it has read. */
  forget: (state: string) => void;
}

let machine: Machine;

function loadProtocol(): { protocol: Protocol; slotAt: (ring: object, slot: number) => number } {
  let code = stripTypeScriptTypes(readFileSync(new URL("./ring-protocol.ts", import.meta.url), "utf8"));
  const bodies = new Map<string, string>();
  for (const part of code.split(/^(?=(?:export )?function )/m)) {
    const name = /^(?:export )?function (\w+)/.exec(part)?.[1];
    if (name !== undefined) {
      bodies.set(name, part);
    }
  }
  const stepping = new Set<string>();
  for (let before = -1; before !== stepping.size;) {
    before = stepping.size;
    for (const [name, body] of bodies) {
      if (body.includes("Atomics.") || [...stepping].some((other) => other !== name && body.includes(`${other}(`))) {
        stepping.add(name);
      }
    }
  }
  const operations = code.match(/Atomics\.\w+\(/g)?.length ?? 0;
  code = wrapCalls(code, /\bAtomics\.\w+\(/g, (call) =>
    // A notification needs no step of its own: who begins to wait after the change before it does not sleep.
    call.startsWith("Atomics.notify") ? call : `(yield, ${call})`,
  );
  for (const name of stepping) {
    code = wrapCalls(code, new RegExp(`(?<!function )\\b${name}\\(`, "g"), (call) => `(yield* ${call})`);
    code = code.replace(`function ${name}(`, `function* ${name}(`);
  }
  const notifications = code.match(/Atomics\.notify\(/g)?.length ?? 0;
  expect(code.match(/\(yield, Atomics\./g)?.length).toBe(operations - notifications);
  expect(operations).toBeGreaterThan(30);
  const names = [...code.matchAll(/^export (?:const|function\*?) (\w+)/gm)].map(([, name]) => name as string);
  // oxlint-disable-next-line typescript/no-implied-eval -- the source under test, made steppable
  const make = new Function("Atomics", `${code.replaceAll(/^export /gm, "")}\nreturn { ${names.join(", ")} };`) as (
    atomics: object,
  ) => Protocol;
  const change = (update: (old: number, value: number) => number) => (_: unknown, word: number, value: number) => {
    const old = machine.memory[word] as number;
    machine.memory[word] = update(old, value);
    machine.read(old);
    return old;
  };
  const protocol = make({
    load: (_: unknown, word: number) => {
      machine.read(machine.memory[word] as number);
      return machine.memory[word];
    },
    store: change((_, value) => value),
    add: change((old, value) => old + value),
    sub: change((old, value) => old - value),
    and: change((old, value) => old & value),
    or: change((old, value) => old | value),
    compareExchange: (_: unknown, word: number, expected: number, value: number) => {
      const old = machine.memory[word] as number;
      machine.memory[word] = old === expected ? value : old;
      machine.read(old);
      return old;
    },
    notify: (_: unknown, word: number) => machine.notify(word),
  });
  return { protocol, slotAt: protocol.slotAt as unknown as (ring: object, slot: number) => number };
}

/** Wraps each call that `start` finds the beginning of, up to its closing bracket; inner calls too. */
function wrapCalls(code: string, start: RegExp, wrap: (call: string) => string): string {
  let result = "";
  let from = 0;
  start.lastIndex = 0;
  for (let match = start.exec(code); match !== null; match = start.exec(code)) {
    let end = match.index + match[0].length;
    for (let depth = 1; depth > 0; end += 1) {
      depth += code[end] === "(" ? 1 : code[end] === ")" ? -1 : 0;
    }
    const inner = code.slice(match.index + match[0].length, end - 1);
    result +=
      code.slice(from, match.index) + wrap(`${match[0]}${wrapCalls(inner, new RegExp(start.source, "g"), wrap)})`);
    from = end;
    start.lastIndex = end;
  }
  return result + code.slice(from);
}

interface Thread {
  readonly name: string;
  steps: Step;
  reads: string;
  wait: Wait | undefined;
  done: boolean;
  dead: boolean;
}

/** One execution in progress: memory, data and threads. */
interface World {
  readonly machine: Machine;
  readonly threads: Thread[];
  /** What the memory holds, and the data that it guards. */
  readonly data: () => string;
  /** Called when no thread can go on. */
  readonly check: () => void;
  /** Producer threads that may be killed, and what then buries them. */
  readonly mortal: readonly { readonly thread: Thread; readonly bury: () => Step }[];
}

const KILL = 1000;
const EXHAUSTIVE = process.env.DLRM_EXHAUSTIVE === "1";
/** Schedules drawn for a case that is not searched to its end. */
const WALKS = 4000;

/** Plays schedules drawn at random to their end. Deaths are rare among so many steps, so they are drawn more often. */
function walk(build: () => World): void {
  let state = 1;
  const random = (below: number): number => {
    state = Math.imul(state, 48271) % 0x7fffffff;
    state += state < 0 ? 0x7fffffff : 0;
    return state % below;
  };
  for (let i = 0; i < WALKS; i += 1) {
    const world = build();
    machine = world.machine;
    const deathAfter = random(120);
    // Runs of steps of one thread, of all lengths: with a fair draw at each step no thread is ever far behind.
    const stay = 1 + random(12);
    let last = -1;
    for (let step = 0; ; step += 1) {
      const all = choicesOf(world);
      const choices = all.filter((choice) => choice < KILL);
      const deaths = all.filter((choice) => choice >= KILL);
      if (deaths.length > 0 && (step >= deathAfter || choices.length === 0)) {
        choices.push(...deaths);
      }
      if (choices.length === 0) {
        world.check();
        break;
      }
      last = choices.includes(last) && random(stay) > 0 ? last : (choices[random(choices.length)] as number);
      take(world, last);
    }
  }
}

/** Tries every schedule. Returns how many states there are. */
function explore(build: () => World): number {
  const seen = new Set<string>();
  const todo: number[][] = [[]];
  for (let prefix = todo.pop(); prefix !== undefined; prefix = todo.pop()) {
    const world = build();
    machine = world.machine;
    const schedule: number[] = [];
    for (const choice of prefix) {
      take(world, choice);
      schedule.push(choice);
    }
    for (;;) {
      const choices = choicesOf(world);
      const key = `${world.data()}|${world.threads.map((t) => `${t.reads};${t.wait?.word ?? ""}${t.done ? "d" : ""}${t.dead ? "x" : ""}`).join("|")}`;
      if (process.env.RING_STATES !== undefined && seen.size % 20000 === 0)
        console.log(seen.size, todo.length, schedule.length);
      if (seen.has(key)) {
        break;
      }
      seen.add(key);
      const [first, ...others] = choices;
      if (first === undefined) {
        world.check();
        break;
      }
      for (const other of others) {
        todo.push([...schedule, other]);
      }
      take(world, first);
      schedule.push(first);
    }
  }
  return seen.size;
}

function choicesOf(world: World): number[] {
  const choices: number[] = [];
  for (const [i, thread] of world.threads.entries()) {
    if (!thread.done && !thread.dead && thread.wait === undefined) {
      choices.push(i);
    }
  }
  if (choices.length === 0) {
    // Time passes when nothing else can happen.
    for (const [i, thread] of world.threads.entries()) {
      if (thread.wait?.timed === true && !thread.dead) {
        choices.push(i);
      }
    }
  }
  if (!world.mortal.some(({ thread }) => thread.dead)) {
    for (const [i, { thread }] of world.mortal.entries()) {
      if (!thread.done) {
        choices.push(KILL + i);
      }
    }
  }
  return choices;
}

function take(world: World, choice: number): void {
  if (choice >= KILL) {
    const { thread, bury } = world.mortal[choice - KILL] as World["mortal"][number];
    thread.dead = true;
    thread.wait = undefined;
    world.threads.push(threadOf("undertaker", bury()));
    return;
  }
  const thread = world.threads[choice] as Thread;
  thread.wait = undefined;
  world.machine.read = (value) => {
    thread.reads += `,${value}`;
  };
  world.machine.forget = (state) => {
    thread.reads = state;
  };
  world.machine.notify = (word) => {
    for (const other of world.threads) {
      if (other.wait?.word === word) {
        other.wait = undefined;
      }
    }
  };
  // A step counts even if it reads nothing: it takes the thread on.
  thread.reads += ".";
  const { done, value } = thread.steps.next();
  thread.done = done === true;
  if (!thread.done && value !== undefined) {
    const wait = value as Wait;
    // As Atomics.wait: no sleep if the word has changed since it was looked at.
    thread.wait = world.machine.memory[wait.word] === wait.value ? wait : undefined;
  }
}

function threadOf(name: string, steps: Step): Thread {
  return { name, steps, reads: "", wait: undefined, done: false, dead: false };
}

/** Producers that each submit items of these sizes, one after the other, and a consumer. */
function buildWorld(
  loaded: ReturnType<typeof loadProtocol>,
  shape: { slots: number; rows: number },
  sizes: readonly (readonly number[])[],
  mortal: boolean,
): World {
  const { protocol: p, slotAt } = loaded;
  const ring = { ...shape, producers: sizes.length };
  const memory = new Int32Array(slotAt(ring, ring.slots));
  for (let slot = 0; slot < ring.slots; slot += 1) {
    memory[slotAt(ring, slot)] = slot << 16;
  }
  /** The words that are used; the rest is padding. */
  const words = [0, 1, 2, 3, 4];
  for (let slot = 0; slot < ring.slots; slot += 1) {
    const at = slotAt(ring, slot);
    words.push(at, at + 1, at + 2, at + 4);
    for (let id = 0; id < ring.producers; id += 1) {
      words.push(at + (p.SLOT_WORDS as number) + id * (p.CELL_WORDS as number));
    }
  }
  const inputs: string[][] = Array.from({ length: ring.slots }, () => []);
  const outputs: string[][] = Array.from({ length: ring.slots }, () => []);
  const answered: string[] = [];
  const word = (name: string): number => p[name] as number;

  function* producer(id: number): Step {
    for (const [n, size] of (sizes[id] as readonly number[]).entries()) {
      const item = `${id}.${n}`;
      let place: number;
      for (;;) {
        machine.forget(item);
        place = (yield* (p.reserve as (...a: unknown[]) => Step)(memory, ring, id, size)) as number;
        if (place !== p.FULL) {
          break;
        }
        yield;
        const sequence = memory[word("OPEN_SEQUENCE")] as number;
        machine.read(sequence);
        if ((yield* (p.isFullAt as (...a: unknown[]) => Step)(memory, ring, sequence)) === true) {
          yield { word: word("OPEN_SEQUENCE"), value: sequence, timed: false };
        }
      }
      const slot = Math.floor(place / 32768);
      const row = place % 32768;
      const published = slotAt(ring, slot) + word("PUBLISHED");
      const before = memory[published] as number;
      for (let i = row; i < row + size; i += 1) {
        (inputs[slot] as string[])[i] = item;
      }
      yield* (p.commit as (...a: unknown[]) => Step)(memory, ring, id, slot, size);
      for (;;) {
        machine.forget(`${item} at ${place} after ${before}`);
        yield;
        machine.read(memory[published] as number);
        if (memory[published] !== before) {
          break;
        }
        yield { word: published, value: before, timed: false };
      }
      expect((outputs[slot] as string[]).slice(row, row + size)).toEqual(
        Array.from({ length: size }, () => `${item}!`),
      );
      answered.push(item);
      yield* (p.release as (...a: unknown[]) => Step)(memory, ring, id, slot);
    }
    return undefined;
  }

  function* consumer(): Step {
    for (let head = 0; ; head += 1) {
      const slot = head % ring.slots;
      const at = slotAt(ring, slot);
      for (;;) {
        machine.forget(`head ${head}`);
        const now = (yield* (p.wordAt as (...a: unknown[]) => Step)(memory, ring, head)) as number;
        if ((now & 0xffff) !== 0) {
          break;
        }
        if ((yield* (p.fallAsleep as (...a: unknown[]) => Step)(memory, ring, head, 1)) === true) {
          yield { word: word("SLEEPING"), value: 1, timed: false };
          yield;
          memory[word("SLEEPING")] = 0;
        }
      }
      const rows = (yield* (p.close as (...a: unknown[]) => Step)(memory, ring, head)) as number;
      expect(rows).toBeGreaterThan(0);
      expect(rows).toBeLessThanOrEqual(ring.rows);
      for (;;) {
        machine.forget(`closed ${head} ${rows}`);
        yield;
        const seen = memory[at + word("COMPLETION")] as number;
        machine.read(seen);
        if ((yield* (p.isComplete as (...a: unknown[]) => Step)(memory, ring, slot, rows)) === true) {
          break;
        }
        yield { word: at + word("COMPLETION"), value: seen, timed: true };
      }
      const batch = (inputs[slot] as string[]).slice(0, rows);
      outputs[slot] = batch.map((item) => `${item}!`);
      const participants = yield* (p.takeParticipants as (...a: unknown[]) => Step)(memory, ring, slot);
      yield* (p.publish as (...a: unknown[]) => Step)(memory, ring, head, participants, 0);
    }
  }

  const producers = sizes.map((_, id) => threadOf(`producer ${id}`, producer(id)));
  const consumerThread = threadOf("consumer", consumer());
  return {
    machine: { memory, notify: () => {}, read: () => {}, forget: () => {} },
    data: () => {
      let key = `${answered.length}/${inputs.join(";")}/${outputs.join(";")}/`;
      for (const at of words) {
        key += `${memory[at]},`;
      }
      return key;
    },
    threads: [...producers, consumerThread],
    mortal: mortal
      ? [{ thread: producers[0] as Thread, bury: () => (p.buryProducer as (...a: unknown[]) => Step)(memory, ring, 0) }]
      : [],
    check: () => {
      // Nobody can go on: then all that live have all their answers, and the consumer sleeps for want of work.
      for (const thread of producers) {
        expect([thread.name, thread.done || thread.dead]).toEqual([thread.name, true]);
      }
      expect(consumerThread.wait?.word).toBe(word("SLEEPING"));
      const expected = sizes.flatMap((list, id) =>
        producers[id]?.dead === true ? [] : list.map((_, n) => `${id}.${n}`),
      );
      expect(answered.filter((item) => expected.includes(item)).toSorted()).toEqual(expected.toSorted());
      expect(new Set(answered).size).toBe(answered.length);
    },
  };
}

describe("in every interleaving", () => {
  const loaded = loadProtocol();
  const cases = [
    { name: "a producer goes round the ring", small: true, slots: 2, rows: 1, sizes: [[1, 1, 1]], mortal: false },
    { name: "two producers share a batch", small: false, slots: 2, rows: 2, sizes: [[1], [1]], mortal: false },
    {
      name: "an item that does not fit opens the next batch",
      small: false,
      slots: 2,
      rows: 2,
      sizes: [[2], [1]],
      mortal: false,
    },
    {
      name: "three producers find a ring of two full",
      small: false,
      slots: 2,
      rows: 1,
      sizes: [[1], [1], [1]],
      mortal: false,
    },
    {
      name: "two producers go round a ring of two",
      small: false,
      slots: 2,
      rows: 1,
      sizes: [
        [1, 1, 1],
        [1, 1, 1],
      ],
      mortal: false,
    },
    {
      name: "three producers go round a ring of two",
      small: false,
      slots: 2,
      rows: 3,
      sizes: [
        [1, 2],
        [2, 1],
        [3, 1],
      ],
      mortal: false,
    },
    { name: "one of two producers dies", small: false, slots: 2, rows: 2, sizes: [[1], [1]], mortal: true },
    {
      name: "one of two producers dies while the ring is full",
      small: false,
      slots: 2,
      rows: 1,
      sizes: [
        [1, 1],
        [1, 1],
      ],
      mortal: true,
    },
  ];

  test.each(cases.filter(({ small }) => small || EXHAUSTIVE))(
    "$name: all schedules",
    ({ slots, rows, sizes, mortal }) => {
      expect(explore(() => buildWorld(loaded, { slots, rows }, sizes, mortal))).toBeGreaterThan(1000);
    },
    3_600_000,
  );

  test.each(cases)("$name: schedules drawn at random", ({ slots, rows, sizes, mortal }) => {
    expect(() => walk(() => buildWorld(loaded, { slots, rows }, sizes, mortal))).not.toThrow();
  });
});
