import fc from "fast-check";
import { expect, test } from "vitest";
import { rig } from "../test/batcher-rig.ts";
import { BatcherError } from "./index.ts";

/** What callers do, one after the other: items with options and without, which the batcher keeps apart. */
const steps = fc.array(
  fc.oneof(
    fc.record({ does: fc.constant("plain" as const) }),
    fc.record({
      does: fc.constant("withOptions" as const),
      deadlineMs: fc.option(fc.double({ min: 0.01, max: 30, noNaN: true }), { nil: undefined }),
      priority: fc.integer({ min: 0, max: 1 }),
    }),
    fc.record({ does: fc.constant("cancel" as const), which: fc.nat() }),
    fc.record({ does: fc.constant("look" as const) }),
    fc.record({ does: fc.constant("flush" as const), maxItems: fc.integer({ min: 0, max: 5 }) }),
    fc.record({ does: fc.constant("settle" as const) }),
    fc.record({ does: fc.constant("wait" as const), ms: fc.integer({ min: 0, max: 15 }) }),
  ),
  { minLength: 1, maxLength: 60 },
);

test("items with options and without, mixed, each settle once with their own result or a reason", async () => {
  await fc.assert(
    fc.asyncProperty(
      steps,
      fc.constantFrom("off" as const, "window" as const, "adaptive" as const),
      fc.constantFrom("tick" as const, "poll" as const),
      fc.integer({ min: 1, max: 3 }),
      async (all, policy, collectUntil, maxInFlightBatches) => {
        const { clock, batcher, ran } = rig({ policy, collectUntil, maxInFlightBatches, runMs: 7 });
        const outcomes: unknown[][] = [];
        const controllers: AbortController[] = [];
        const keep = (promise: Promise<string>): void => {
          const mine: unknown[] = [];
          outcomes.push(mine);
          promise.then(
            (value) => mine.push(value),
            (error: unknown) => mine.push(error instanceof BatcherError ? error.code : error),
          );
        };
        for (const step of all) {
          if (step.does === "plain") {
            keep(batcher.submit(outcomes.length));
          } else if (step.does === "withOptions") {
            const controller = new AbortController();
            controllers.push(controller);
            const { deadlineMs, priority } = step;
            keep(batcher.submit(outcomes.length, { signal: controller.signal, deadlineMs, priority }));
          } else if (step.does === "cancel") {
            controllers[step.which % Math.max(1, controllers.length)]?.abort();
          } else if (step.does === "look") {
            batcher.stats();
          } else if (step.does === "flush") {
            batcher.flush(step.maxItems);
          } else if (step.does === "settle") {
            await clock.settle();
          } else {
            await clock.advanceMs(step.ms);
          }
        }
        await clock.advanceMs(1000);
        for (const [i, mine] of outcomes.entries()) {
          expect(mine).toHaveLength(1);
          expect([`${i}!`, "cancelled", "deadline_exceeded"]).toContain(mine[0]);
        }
        const items = ran.flatMap((batch) => batch.items);
        expect(new Set(items).size).toBe(items.length);
        for (const item of items) {
          expect(item).toBeTypeOf("number");
        }
        const { queuedItems, queuedSize, inFlightBatches, submittedItems } = batcher.stats();
        expect({ queuedItems, queuedSize, inFlightBatches, submittedItems }).toEqual({
          queuedItems: 0,
          queuedSize: 0,
          inFlightBatches: 0,
          submittedItems: outcomes.length,
        });
      },
    ),
    { numRuns: 400 },
  );
}, 60_000);
