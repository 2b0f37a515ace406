/** What must hold in every state that is reached; docs/shared-ring.md says the same in its table. */
export const INVARIANTS = {
  "row-once": "a row is given to one item until its slot is prepared anew",
  "whole-batch": "a batch is run when all its rows are committed, or what is missing is of a dead producer",
  "run-once": "an item is run once at most",
  "given-up": "a batch all of whose rows were given up before it was closed is not run",
  "answered-once": "an item is answered once, with its own result",
  "right-error": "an item fails only for a reason that there is: cancelled, expired, draining, closed, consumer gone",
  drained: "an item that is in the ring when it begins to drain is answered with its result",
  "told-once": "a port is told of each batch once, and of none after the end",
  "drawn-edges": "a slot goes only along the edges that are drawn, and its rows only grow, while it is open",
  "open-by-one": "the open sequence moves by one, onto a prepared slot, from a batch that takes no more rows",
  "all-released": "a slot is prepared anew when every living producer has read its results there",
  "no-lost-wake":
    "when nothing can happen any more, nobody waits for something that is there, and every item is answered",
  "counts-zero": "when all is answered, slots are empty and all counts are zero",
} as const;

export type InvariantName = keyof typeof INVARIANTS;

export class InvariantBroken extends Error {
  readonly invariant: InvariantName;

  constructor(invariant: InvariantName, detail: string) {
    super(`${invariant}: ${detail}`);
    this.invariant = invariant;
  }
}
