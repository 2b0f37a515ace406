import type { ModelItem } from "./producer-thread.ts";
import type { RingCase } from "./ring-model.ts";

/** A case, and what may become of its items. */
export interface SearchedCase extends RingCase {
  readonly outcomes: readonly string[];
}

const ONE: ModelItem = { size: 1 };
const TWO: ModelItem = { size: 2 };
const THREE: ModelItem = { size: 3 };
const CANCELLED: ModelItem = { size: 1, may: "cancel" };
const EXPIRING: ModelItem = { size: 1, may: "expire" };
const THROWING: ModelItem = { size: 1, throws: true };

const LEISURELY: ModelItem = { size: 1, hurries: false };
const HURRIED: ModelItem = { size: 1, hurries: true };

const OK = ["ok"];
const DRAINED = ["closed", "draining", "ok"];
const SINGLE = { slots: 2, rows: 2, producers: [[ONE]] } as const;
const PAIR = { slots: 2, rows: 2, producers: [[ONE], [ONE]] } as const;
const ALONE = { slots: 2, rows: 1 } as const;
/** Two items of each of two producers, in batches of two, over a ring of two slots. */
const FOUR = {
  slots: 2,
  rows: 2,
  producers: [
    [ONE, ONE],
    [ONE, ONE],
  ],
} as const;

/** Searched in every interleaving. */
export const WHOLE_CASES: readonly SearchedCase[] = [
  { ...PAIR, name: "two producers share a batch", outcomes: OK },
  { ...PAIR, name: "the policy waits for more", waitsForMore: true, outcomes: OK },
  { ...PAIR, name: "an item that does not fit opens the next batch", producers: [[TWO], [ONE]], outcomes: OK },
  { ...ALONE, name: "a producer finds the ring full", producers: [[ONE, ONE, ONE]], outcomes: OK },
  { ...PAIR, name: "an item is cancelled", producers: [[CANCELLED], [ONE]], outcomes: ["cancelled", "ok"] },
  {
    ...ALONE,
    name: "a deadline passes",
    producers: [[ONE, EXPIRING, ONE]],
    outcomes: ["deadline_exceeded", "ok"],
  },
  {
    ...SINGLE,
    name: "a write throws, and runs fail",
    producers: [[THROWING, ONE]],
    runsFail: true,
    outcomes: ["invalid_argument", "ok", "run_failed"],
  },
  { ...ALONE, name: "the ring drains", producers: [[ONE, ONE]], end: "drain", outcomes: DRAINED },
  {
    ...ALONE,
    name: "the ring is closed",
    producers: [[ONE, CANCELLED]],
    end: "close",
    outcomes: ["cancelled", "closed", "ok"],
  },
  { ...ALONE, name: "the only producer dies", producers: [[ONE, ONE]], mortal: 0, outcomes: [] },
  {
    ...SINGLE,
    name: "the consumer dies",
    producers: [[ONE, ONE]],
    mortal: "consumer",
    outcomes: ["consumer_gone", "ok"],
  },
  {
    ...SINGLE,
    name: "another takes the place of the producer that dies",
    mortal: 0,
    heir: [ONE],
    outcomes: ["ok", "overloaded"],
  },
  {
    ...PAIR,
    name: "an item in a hurry ends the wait for more",
    rows: 3,
    producers: [[LEISURELY], [HURRIED]],
    waitsForHurried: true,
    outcomes: ["inRing", "ok"],
  },
];

/** Too large for that: the handlers of the threads are interrupted so often at most. */
export const BOUNDED_CASES: readonly SearchedCase[] = [
  { ...PAIR, name: "a producer of two dies", mortal: 0, interruptions: 1, outcomes: OK },
  { ...PAIR, name: "a ring of two producers drains", end: "drain", interruptions: 2, outcomes: DRAINED },
  { ...PAIR, name: "a ring of two producers is closed", end: "close", interruptions: 2, outcomes: ["closed", "ok"] },
  {
    ...PAIR,
    name: "the consumer of two producers dies",
    mortal: "consumer",
    interruptions: 2,
    outcomes: ["consumer_gone", "ok"],
  },
  {
    ...PAIR,
    name: "another takes the place of one of two producers",
    mortal: 0,
    heir: [ONE],
    interruptions: 0,
    outcomes: ["ok", "overloaded"],
  },
  {
    ...PAIR,
    name: "items in no hurry fill a batch",
    rows: 3,
    producers: [[LEISURELY], [LEISURELY, LEISURELY]],
    waitsForHurried: true,
    interruptions: 2,
    outcomes: OK,
  },
  { ...FOUR, name: "four items", interruptions: 0, outcomes: OK },
  {
    ...FOUR,
    name: "four items, one is cancelled",
    producers: [
      [CANCELLED, ONE],
      [ONE, ONE],
    ],
    interruptions: 0,
    outcomes: ["cancelled", "ok"],
  },
  { ...FOUR, name: "four items, the ring drains", end: "drain", interruptions: 0, outcomes: DRAINED },
];

/** Larger still: schedules are drawn. */
export const WALKED_CASES: readonly SearchedCase[] = [
  { ...FOUR, name: "two producers find the ring full, one dies", rows: 1, mortal: 0, outcomes: OK },
  {
    ...ALONE,
    name: "a producer dies while another goes round the ring",
    producers: [[ONE], [ONE, ONE, ONE]],
    mortal: 0,
    outcomes: OK,
  },
  {
    ...ALONE,
    name: "two producers go round the ring",
    producers: [
      [ONE, ONE, ONE],
      [ONE, ONE, ONE],
    ],
    outcomes: OK,
  },
  { ...ALONE, name: "three producers find the ring full", producers: [[ONE], [ONE], [ONE]], outcomes: OK },
  {
    ...ALONE,
    name: "three producers go round the ring",
    rows: 3,
    producers: [
      [ONE, TWO, CANCELLED],
      [TWO, ONE, EXPIRING],
      [THREE, ONE, ONE],
    ],
    outcomes: ["cancelled", "deadline_exceeded", "ok"],
  },
  {
    ...ALONE,
    name: "three producers, one dies, runs fail",
    rows: 2,
    producers: [
      [ONE, CANCELLED],
      [TWO, TWO],
      [ONE, ONE],
    ],
    mortal: 1,
    runsFail: true,
    waitsForMore: true,
    outcomes: ["cancelled", "ok", "run_failed"],
  },
  {
    ...ALONE,
    name: "three producers, the ring drains",
    rows: 2,
    producers: [[ONE, TWO], [TWO, ONE], [ONE]],
    end: "drain",
    outcomes: DRAINED,
  },
];

/** Searched by the command only: they take from some seconds to a minute each. */
export const LARGE_CASES: readonly RingCase[] = [
  { ...PAIR, name: "the consumer of two producers dies", mortal: "consumer" },
  { ...PAIR, name: "a producer of two dies", mortal: 0, interruptions: 2 },
  { ...PAIR, name: "a ring of two producers is closed", end: "close" },
  { ...PAIR, name: "a ring of two producers drains", end: "drain" },
  { ...FOUR, name: "four items, the consumer dies", mortal: "consumer", interruptions: 0 },
  { ...FOUR, name: "four items", interruptions: 1 },
  { ...PAIR, name: "three items", producers: [[ONE, ONE], [ONE]] },
  { ...FOUR, name: "four items, a producer dies", mortal: 0, interruptions: 0 },
];
