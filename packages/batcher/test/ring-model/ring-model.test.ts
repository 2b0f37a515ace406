import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { BOUNDED_CASES, WALKED_CASES, WHOLE_CASES } from "./cases.ts";
import { InvariantBroken, INVARIANTS } from "./invariants.ts";
import { MUTANTS, mutate } from "./mutants.ts";
import { PROTOCOL } from "./protocol.ts";
import { RingModel } from "./ring-model.ts";
import { search, Violation } from "./search.ts";
import { SLOT_EDGES } from "./slot-states.ts";
import { walk } from "./walk.ts";

describe("the ring's protocol", () => {
  test.each(WHOLE_CASES)("$name: in every interleaving", (ringCase) => {
    const model = new RingModel(ringCase, PROTOCOL);
    search(model);
    expect([...model.outcomes].toSorted()).toEqual(ringCase.outcomes);
  });

  test.each(BOUNDED_CASES)("$name: in every interleaving with $interruptions interruptions", (ringCase) => {
    const model = new RingModel(ringCase, PROTOCOL);
    search(model);
    expect([...model.outcomes].toSorted()).toEqual(ringCase.outcomes);
  });

  test.each(WALKED_CASES)("$name: in interleavings drawn from a seed", (ringCase) => {
    const model = new RingModel(ringCase, PROTOCOL);
    walk(model, 1000, 1);
    expect([...model.outcomes].toSorted()).toEqual(ringCase.outcomes);
  });
});

describe("a search finds that", () => {
  test.each(MUTANTS)("$name", (mutant) => {
    let violation: unknown;
    try {
      search(new RingModel({ ...mutant.in, name: mutant.name }, mutate(mutant)), 3_000_000);
    } catch (error) {
      violation = error;
    }
    expect(violation).toBeInstanceOf(Violation);
    const { cause } = violation as Violation;
    expect(cause).toBeInstanceOf(InvariantBroken);
    expect((cause as InvariantBroken).invariant).toBe(mutant.breaks);
  });
});

describe("docs/shared-ring.md", () => {
  const text = readFileSync(new URL("../../docs/shared-ring.md", import.meta.url), "utf8");

  test("lists the invariants that the model asserts", () => {
    const rows = [...text.matchAll(/^\| `([a-z-]+)` \| (.+) \|$/gm)].map(([, name, holds]) => [name, holds]);
    expect(Object.fromEntries(rows)).toEqual(INVARIANTS);
  });

  test("draws the edges that the model allows", () => {
    const edges = [...text.matchAll(/(\w+) → (\w+)/g)].map(([edge]) => edge);
    const allowed = Object.entries(SLOT_EDGES).flatMap(([from, all]) => all.map((to) => `${from} → ${to}`));
    expect(edges).toEqual(allowed);
  });
});
