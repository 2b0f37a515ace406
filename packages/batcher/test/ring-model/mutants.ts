import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import type { InvariantName } from "./invariants.ts";
import type { Protocol } from "./protocol.ts";
import type { RingCase } from "./ring-model.ts";

/** A mistake in the protocol that a search must find, and where it does. */
export interface Mutant {
  readonly name: string;
  /** Text of ring-protocol.ts or producer-numbers.ts, there once, and what is there instead. */
  readonly edits: readonly (readonly [string, string])[];
  readonly in: Omit<RingCase, "name">;
  readonly breaks: InvariantName;
}

const ONE = { size: 1 };
const SINGLE = { slots: 2, rows: 2, producers: [[ONE]] };
const PAIR = { slots: 2, rows: 2, producers: [[ONE], [ONE]] };
const ROUND = { slots: 2, rows: 1, producers: [[ONE, ONE, ONE]] };

/** The only producer dies, and another comes in its place. */
const REPLACED = { slots: 2, rows: 2, producers: [[ONE]], mortal: 0, heir: [ONE] };
const HURRIED = {
  slots: 2,
  rows: 3,
  producers: [[{ size: 1, hurries: false }], [{ size: 1, hurries: true }]],
  waitsForHurried: true,
};

const FREES_CELLS =
  "    for (let slot = 0; slot < ring.slots; slot += 1) {\n      // Rows of its that are missing are missed by nobody";
const IS_BURIED = "  const isBuried = (Atomics.load(numbers, BURIED) & (1 << number)) !== 0;\n";
const IS_GONE = "  const isGone = Atomics.load(numbers, FREED + number) * NUMBERS + number !== id;\n";
const PUBLISHED_STORE = "  Atomics.store(control, at + PUBLISHED, (sequence + 1) | 0);\n";
const PUBLISHED_NOTIFY = "  Atomics.notify(control, at + PUBLISHED);\n";
const ATTEMPT_ADD = "        Atomics.add(control, cell, ATTEMPT);\n";
const ROWS_TAKEN = "          return placeOf(slot, rowsOf(word));\n";
const RELEASED = "  if (readers === bit) {\n";
const READERS_LEFT = "  if (!isPublished || Atomics.load(control, at + READERS) !== 0) {\n";

export const MUTANTS: readonly Mutant[] = [
  {
    name: "a batch is run without waiting for its commits",
    edits: [["  return committed === rows || attempts === 0;\n", "  return true;\n"]],
    in: SINGLE,
    breaks: "whole-batch",
  },
  {
    name: "a producer says that it has begun only when it has its rows",
    edits: [
      [ATTEMPT_ADD, ""],
      [ROWS_TAKEN, `${ATTEMPT_ADD}${ROWS_TAKEN}`],
      ["        Atomics.sub(control, cell, ATTEMPT);\n", ""],
    ],
    in: SINGLE,
    breaks: "whole-batch",
  },
  {
    name: "rows are taken without looking again whether the batch is closed",
    edits: [
      [
        "        if (Atomics.compareExchange(control, at + WORD, word, word + size) === word) {\n",
        "        Atomics.store(control, at + WORD, word + size);\n        {\n",
      ],
    ],
    in: PAIR,
    breaks: "row-once",
  },
  {
    name: "publish does not notify",
    edits: [[PUBLISHED_NOTIFY, ""]],
    in: SINGLE,
    breaks: "no-lost-wake",
  },
  {
    name: "publish notifies before it stores",
    edits: [[PUBLISHED_STORE + PUBLISHED_NOTIFY, PUBLISHED_NOTIFY + PUBLISHED_STORE]],
    in: SINGLE,
    breaks: "no-lost-wake",
  },
  {
    name: "a commit to a closed batch wakes nobody",
    edits: [["  if (isClosed(word)) {\n    wakeForCompletion(control, at);\n  } else if (", "  if ("]],
    in: SINGLE,
    breaks: "no-lost-wake",
  },
  {
    name: "the consumer looks for rows before it says that it sleeps",
    edits: [
      ["  Atomics.store(control, SLEEPING, 1);\n", ""],
      [
        "rowsOf(word) < wakeAtRows) {\n    return true;\n",
        "rowsOf(word) < wakeAtRows) {\n    Atomics.store(control, SLEEPING, 1);\n    return true;\n",
      ],
    ],
    in: SINGLE,
    breaks: "no-lost-wake",
  },
  {
    name: "rows that are given up are not counted",
    edits: [["  Atomics.add(control, slotAt(ring, slot) + ABANDONED, size);\n", ""]],
    in: { ...SINGLE, producers: [[{ size: 1, throws: true }]] },
    breaks: "given-up",
  },
  {
    name: "rows that are given up are counted twice",
    edits: [["slotAt(ring, slot) + ABANDONED, size)", "slotAt(ring, slot) + ABANDONED, 2 * size)"]],
    in: { ...SINGLE, producers: [[{ size: 1, throws: true }, ONE]] },
    breaks: "answered-once",
  },
  {
    name: "a commit leaves its attempt in progress",
    edits: [["producer * CELL_WORDS, size - ATTEMPT)", "producer * CELL_WORDS, size)"]],
    in: SINGLE,
    breaks: "counts-zero",
  },
  {
    name: "the first to release a slot prepares it",
    edits: [
      [RELEASED, "  {\n"],
      [READERS_LEFT, "  if (!isPublished) {\n"],
    ],
    in: PAIR,
    breaks: "all-released",
  },
  {
    name: "who opens the next batch tells nobody that there is room",
    edits: [["    Atomics.notify(control, OPEN_SEQUENCE);\n  }\n  return true;\n", "  }\n  return true;\n"]],
    in: ROUND,
    breaks: "no-lost-wake",
  },
  {
    name: "who prepares a slot does not open it",
    edits: [["=== word) {\n    advanceIfOver(control, ring);\n", "=== word) {\n"]],
    in: ROUND,
    breaks: "no-lost-wake",
  },
  {
    name: "who ends the ring does not wake the producers",
    edits: [["    Atomics.notify(control, slotAt(ring, slot) + PUBLISHED);\n", ""]],
    in: { ...SINGLE, mortal: "consumer" },
    breaks: "no-lost-wake",
  },
  {
    name: "who buries a producer does not wake the consumer",
    edits: [
      [
        "    prepare(control, ring, slot);\n    wakeForCompletion(control, at);\n",
        "    prepare(control, ring, slot);\n",
      ],
    ],
    in: { ...SINGLE, mortal: 0 },
    breaks: "no-lost-wake",
  },
  {
    name: "a slot of a buried producer is prepared before its batch is published",
    edits: [[READERS_LEFT, "  if (!isClosed(word) || Atomics.load(control, at + READERS) !== 0) {\n"]],
    in: { ...SINGLE, mortal: 0 },
    breaks: "drawn-edges",
  },
  {
    name: "an attempt in vain is withdrawn without a word",
    edits: [
      ["          wakeForCompletion(control, at);\n        }\n        continue;\n", "        }\n        continue;\n"],
    ],
    in: { ...PAIR, mortal: 0, interruptions: 2 },
    breaks: "no-lost-wake",
  },
  {
    name: "a number is freed with its cells as its dead producer has left them",
    edits: [["      Atomics.store(control, slotAt(ring, slot) + SLOT_WORDS + number * CELL_WORDS, 0);\n", ""]],
    in: REPLACED,
    breaks: "counts-zero",
  },
  {
    name: "a number is another's before its cells are empty",
    edits: [
      ["    Atomics.and(control, JOINED, ~bit);\n", ""],
      [FREES_CELLS, `    Atomics.and(control, JOINED, ~bit);\n${FREES_CELLS}`],
    ],
    in: REPLACED,
    breaks: "whole-batch",
  },
  {
    name: "a second burial is of whoever has the number",
    edits: [["  if (isBuried || isGone) {\n", "  if (isBuried) {\n"]],
    in: REPLACED,
    breaks: "whole-batch",
  },
  {
    name: "a burial looks first whether the number was freed, then whether it is buried",
    edits: [[IS_BURIED + IS_GONE, IS_GONE + IS_BURIED]],
    in: REPLACED,
    breaks: "whole-batch",
  },
  {
    name: "who buries a producer does not tell the consumer that its number can be freed",
    edits: [
      [
        "  Atomics.or(numbers, BURIED, 1 << number);\n  wakeConsumer(control);\n",
        "  Atomics.or(numbers, BURIED, 1 << number);\n",
      ],
    ],
    in: REPLACED,
    breaks: "no-lost-wake",
  },
  {
    name: "the consumer sleeps while an item in a hurry is behind one that is not said",
    edits: [],
    in: { ...HURRIED, mistake: "forgets what is unsaid" },
    breaks: "no-lost-wake",
  },
  {
    name: "the consumer says once more that it sleeps, although it was woken",
    edits: [],
    in: {
      ...HURRIED,
      producers: [
        [{ size: 1, hurries: false }],
        [
          { size: 1, hurries: false },
          { size: 1, hurries: false },
        ],
      ],
      interruptions: 2,
      mistake: "loses a wake",
    },
    breaks: "no-lost-wake",
  },
];

/** The protocol with a mistake, if it is one of the protocol's. */
export function mutate({ name, edits }: Mutant): Protocol {
  const [protocol, numbers] = ["ring-protocol.ts", "producer-numbers.ts"].map((file) =>
    readFileSync(new URL(`../../src/shared/${file}`, import.meta.url), "utf8"),
  );
  // The second has of the first what it imports.
  let source = `${protocol}\n${numbers?.replaceAll(/^import .*\n/gm, "")}`;
  for (const [text, instead] of edits) {
    if (source.split(text).length !== 2) {
      throw new Error(`mutant "${name}": expected this once in the sources: ${text}`);
    }
    source = source.replace(text, () => instead);
  }
  const code = stripTypeScriptTypes(source);
  const names = [...code.matchAll(/^export (?:const|function) (\w+)/gm)].map(([, exported]) => exported as string);
  // oxlint-disable-next-line typescript/no-implied-eval -- the source under test, with a mistake
  const make = new Function(`${code.replaceAll(/^export /gm, "")}\nreturn { ${names.join(", ")} };`) as () => Protocol;
  return make();
}
