import fc from "fast-check";
import { expect, test } from "vitest";
import { DeadlineHeap } from "./deadline-heap.ts";

interface Timed {
  deadlineAtMs: number;
  state: "in" | "out";
}

test("the earliest of those that are in it is always first, and it holds at most twice as many", () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.double({ min: 0, max: 1000, noNaN: true }), fc.constant("leave" as const)), {
        maxLength: 400,
      }),
      fc.infiniteStream(fc.nat()),
      (steps, picks) => {
        const heap = new DeadlineHeap<Timed>("in");
        const inside: Timed[] = [];
        for (const step of steps) {
          if (step !== "leave") {
            const timed: Timed = { deadlineAtMs: step, state: "in" };
            inside.push(timed);
            heap.push(timed);
          } else if (inside.length > 0) {
            const [gone] = inside.splice((picks.next().value as number) % inside.length, 1);
            (gone as Timed).state = "out";
            heap.left();
          }
          expect(heap.earliestMs()).toBe(Math.min(Infinity, ...inside.map(({ deadlineAtMs }) => deadlineAtMs)));
          expect(heap.heldEntries).toBeLessThanOrEqual(Math.max(65, 2 * inside.length + 1));
        }
      },
    ),
    { numRuns: 60 },
  );
});
