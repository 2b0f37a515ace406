import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Batch, BatchingPolicy, CollectUntil } from "./index.ts";
import { Batcher, BatcherError } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

/** What a caller does; times in whole milliseconds from the start. */
interface Call {
  readonly atMs: number;
  readonly size: number;
  readonly priority: number;
  readonly deadlineMs: number | undefined;
  readonly cancelAfterMs: number | undefined;
}

type RunFault = "none" | "throw" | "reject" | "short" | "long" | "null" | "never" | "late" | "item";

interface Scenario {
  readonly policy: BatchingPolicy;
  readonly collectUntil: CollectUntil;
  readonly maxBatchSize: number;
  readonly maxEnqueuedItems: number;
  readonly maxEnqueuedSize: number;
  readonly maxInFlightBatches: number;
  readonly batchTimeoutMicros: number;
  readonly padded: boolean;
  readonly splits: boolean;
  readonly calls: readonly Call[];
  readonly faults: readonly RunFault[];
  readonly runMs: readonly number[];
  readonly end: "none" | "drain" | "close";
}

const RUN_TIMEOUT_MS = 40;

const scenarios: fc.Arbitrary<Scenario> = fc
  .record({
    policy: fc.constantFrom("off", "window", "adaptive"),
    collectUntil: fc.constantFrom("tick", "poll"),
    maxBatchSize: fc.integer({ min: 1, max: 12 }),
    maxEnqueuedItems: fc.integer({ min: 12, max: 30 }),
    extraSize: fc.integer({ min: 0, max: 30 }),
    maxInFlightBatches: fc.integer({ min: 1, max: 3 }),
    batchTimeoutMicros: fc.constantFrom(0, 500, 1000, 5000),
    padded: fc.boolean(),
    splits: fc.boolean(),
    calls: fc.array(
      fc.record({
        atMs: fc.integer({ min: 0, max: 60 }),
        size: fc.integer({ min: 1, max: 20 }),
        priority: fc.integer({ min: 0, max: 3 }),
        deadlineMs: fc.option(fc.integer({ min: 0, max: 50 }), { nil: undefined }),
        cancelAfterMs: fc.option(fc.integer({ min: 0, max: 50 }), { nil: undefined, freq: 4 }),
      }),
      { minLength: 1, maxLength: 60 },
    ),
    faults: fc.array(
      fc.constantFrom<RunFault>(
        "none",
        "none",
        "none",
        "throw",
        "reject",
        "short",
        "long",
        "null",
        "never",
        "late",
        "item",
      ),
      { minLength: 1, maxLength: 8 },
    ),
    runMs: fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 8 }),
    end: fc.constantFrom("none", "drain", "close"),
  })
  .map(({ extraSize, ...rest }) => Object.assign(rest, { maxEnqueuedSize: rest.maxBatchSize + extraSize }));

interface Item {
  readonly id: string;
  readonly size: number;
}

interface Outcome {
  readonly value?: string;
  readonly code?: string;
  readonly atMs: number;
}

/** Plays a scenario and checks, as it goes, what must hold at every moment. */
async function play(scenario: Scenario) {
  const clock = new FakeClock();
  const { padded, splits, calls, faults, runMs, end, ...options } = scenario;
  const { maxBatchSize } = options;
  const ran: Batch<Item>[] = [];
  const ranIds = new Set<string>();
  const outcomes = new Map<number, Outcome>();
  const settledCounts = new Map<number, number>();
  /** Moment at which each call's cancellation was signalled. */
  const cancelledAtMs = new Map<number, number>();
  let inFlight = 0;
  const violations: unknown[] = [];
  const check = (batch: Batch<Item>): void => {
    expect(inFlight).toBeLessThanOrEqual(scenario.maxInFlightBatches);
    expect(batch.size).toBe(batch.items.reduce((sum, item) => sum + item.size, 0));
    expect(batch.size).toBeLessThanOrEqual(maxBatchSize);
    expect(batch.paddedSize).toBeGreaterThanOrEqual(batch.size);
    expect(batch.paddedSize).toBeLessThanOrEqual(maxBatchSize);
    if (scenario.policy === "off") {
      expect(batch.items).toHaveLength(1);
    }
    for (const item of batch.items) {
      expect(ranIds.has(item.id)).toBe(false);
      ranIds.add(item.id);
      const call = Number.parseInt(item.id, 10);
      // Never run once its caller is gone.
      expect(outcomes.get(call)).toBeUndefined();
      expect(cancelledAtMs.has(call)).toBe(false);
      const { atMs, deadlineMs } = calls[call] as Call;
      expect(clock.now()).toBeLessThan(atMs + (deadlineMs ?? Infinity));
    }
  };
  const batcher = new Batcher<Item, string>({
    ...options,
    ...(padded ? { allowedBatchSizes: [...new Set([1, 2, 4, 8].filter((s) => s < maxBatchSize)), maxBatchSize] } : {}),
    ...(splits
      ? {
          split: (item: Item, maxSize: number) =>
            Array.from({ length: Math.ceil(item.size / maxSize) }, (_, i) => ({
              id: `${item.id}.${i}`,
              size: Math.min(maxSize, item.size - i * maxSize),
            })),
          join: (results: readonly string[]) => results.join("|"),
        }
      : {}),
    clock,
    sizeOf: (item) => item.size,
    runTimeoutMs: RUN_TIMEOUT_MS,
    run: (batch) => {
      const fault = faults[ran.length % faults.length] as RunFault;
      const takesMs = runMs[ran.length % runMs.length] as number;
      ran.push(batch);
      inFlight += 1;
      // What is thrown here would only fail the batch.
      try {
        check(batch);
      } catch (violation) {
        violations.push(violation);
      }
      const results = batch.items.map(({ id }) => `<${id}>`);
      if (fault === "throw") {
        inFlight -= 1;
        throw new Error("run");
      }
      return new Promise<(string | Error)[]>((resolve, reject) => {
        const after =
          fault === "never" || fault === "late" ? RUN_TIMEOUT_MS - 0.001 : Math.min(takesMs, RUN_TIMEOUT_MS - 1);
        // Counted before the batcher hears of it: it may start the next run in the same moment.
        clock.schedule(() => {
          inFlight -= 1;
          if (fault === "reject") {
            reject(new Error("run"));
          } else if (fault !== "never" && fault !== "late") {
            resolve(
              fault === "short"
                ? results.slice(1)
                : fault === "long"
                  ? [...results, "more"]
                  : fault === "null"
                    ? (null as unknown as string[])
                    : fault === "item"
                      ? [new Error("item"), ...results.slice(1)]
                      : results,
            );
          }
        }, after);
        if (fault === "late") {
          clock.schedule(() => resolve(results), RUN_TIMEOUT_MS + 5);
        }
      });
    },
  });

  for (const [i, { atMs, size, priority, deadlineMs, cancelAfterMs }] of calls.entries()) {
    clock.schedule(() => {
      const controller = new AbortController();
      const settled = (outcome: Omit<Outcome, "atMs">): void => {
        outcomes.set(i, { ...outcome, atMs: clock.now() });
        settledCounts.set(i, (settledCounts.get(i) ?? 0) + 1);
      };
      batcher
        .submit({ id: String(i), size }, { signal: controller.signal, priority, deadlineMs })
        .then((value) => settled({ value }))
        .catch((error: unknown) => settled({ code: error instanceof BatcherError ? error.code : String(error) }));
      if (cancelAfterMs !== undefined) {
        clock.schedule(() => {
          if (!outcomes.has(i)) {
            cancelledAtMs.set(i, clock.now());
          }
          controller.abort();
        }, cancelAfterMs);
      }
      const { queuedItems, queuedSize } = batcher.stats();
      expect(queuedItems).toBeLessThanOrEqual(scenario.maxEnqueuedItems);
      expect(queuedSize).toBeLessThanOrEqual(scenario.maxEnqueuedSize);
    }, atMs);
  }
  await clock.advanceMs(45);
  let ended: Promise<void> | undefined;
  if (end === "drain") {
    ended = batcher.drain();
  } else if (end === "close") {
    batcher.close();
  }
  await clock.advanceMs(20_000);
  await ended;
  expect(violations).toEqual([]);
  return { clock, ran, outcomes, settledCounts, stats: batcher.stats() };
}

describe("whatever callers and callbacks do", () => {
  test("each item settles exactly once, in time, with its own result or a reason, and nothing is left", async () => {
    await fc.assert(
      fc.asyncProperty(scenarios, async (scenario) => {
        const { clock, outcomes, settledCounts, stats } = await play(scenario);
        for (const [i, { atMs, size, deadlineMs, cancelAfterMs }] of scenario.calls.entries()) {
          const outcome = outcomes.get(i) as Outcome;
          expect(settledCounts.get(i)).toBe(1);
          if (outcome.value !== undefined) {
            const parts = size > scenario.maxBatchSize ? Math.ceil(size / scenario.maxBatchSize) : 0;
            const own = parts === 0 ? `<${i}>` : Array.from({ length: parts }, (_, p) => `<${i}.${p}>`).join("|");
            expect(outcome.value).toBe(own);
          }
          expect(outcome.atMs).toBeLessThanOrEqual(atMs + (deadlineMs ?? Infinity));
          expect(outcome.atMs).toBeLessThanOrEqual(atMs + (cancelAfterMs ?? Infinity));
          const allowed = new Set<string | undefined>([undefined, "overloaded", "run_failed", "run_timeout"]);
          if (deadlineMs !== undefined) {
            allowed.add("deadline_exceeded");
          }
          if (cancelAfterMs !== undefined) {
            allowed.add("cancelled");
          }
          if (size > scenario.maxBatchSize) {
            allowed.add("too_large");
          }
          if (scenario.end !== "none") {
            allowed.add(scenario.end === "drain" ? "draining" : "closed");
          }
          expect(allowed).toContain(outcome.code);
          if (size > scenario.maxBatchSize && !scenario.splits && scenario.end === "none" && deadlineMs !== 0) {
            expect(outcome.code).toBe("too_large");
          }
        }
        expect(stats).toMatchObject({
          queuedItems: 0,
          queuedSize: 0,
          inFlightBatches: 0,
          oldestWaitMs: 0,
          hookErrors: 0,
        });
        expect(clock.pendingTimers).toBe(0);
        expect(stats.submittedItems).toBe(scenario.calls.length);
      }),
      { numRuns: 400 },
    );
  }, 120_000);

  test("without splits, the counters add up", async () => {
    await fc.assert(
      fc.asyncProperty(scenarios, async (scenario) => {
        const { ran, stats } = await play({ ...scenario, splits: false });
        const gone =
          stats.completedItems +
          stats.failedItems +
          stats.refusedItems +
          stats.evictedItems +
          stats.cancelledBeforeRunItems +
          stats.cancelledInRunItems +
          stats.expiredBeforeRunItems +
          stats.expiredInRunItems +
          stats.closedItems;
        expect(gone).toBe(stats.submittedItems);
        expect(Object.values(stats.refusedByCode).reduce((sum, count) => sum + count, 0)).toBe(stats.refusedItems);
        expect(stats.batchedSize).toBe(ran.reduce((sum, { size }) => sum + size, 0));
        expect(stats.paddedSize).toBe(ran.reduce((sum, { paddedSize }) => sum + paddedSize, 0));
        expect(Object.values(stats.batches).reduce((sum, count) => sum + count, 0)).toBe(ran.length);
        expect(stats.queueDelay.counts.reduce((sum, count) => sum + count, 0)).toBe(
          ran.reduce((sum, { items }) => sum + items.length, 0),
        );
      }),
      { numRuns: 200 },
    );
  }, 120_000);
});

describe("without faults, deadlines and cancellation", () => {
  const calm = scenarios.map((scenario): Scenario =>
    Object.assign(scenario, {
      faults: ["none"],
      end: "none",
      maxEnqueuedItems: 1000,
      maxEnqueuedSize: 1e6,
      splits: true,
      calls: scenario.calls.map((call) => Object.assign(call, { deadlineMs: undefined, cancelAfterMs: undefined })),
    }),
  );

  test("every item gets its result", async () => {
    await fc.assert(
      fc.asyncProperty(calm, async (scenario) => {
        const { outcomes, stats } = await play(scenario);
        expect([...outcomes.values()].filter(({ code }) => code !== undefined)).toEqual([]);
        expect(stats.completedItems).toBeGreaterThanOrEqual(scenario.calls.length);
      }),
      { numRuns: 200 },
    );
  }, 120_000);

  test("items of one priority run in the order of arrival", async () => {
    await fc.assert(
      fc.asyncProperty(calm, async (scenario) => {
        const calls = scenario.calls.map((call) => ({
          ...call,
          priority: 0,
          size: Math.min(call.size, scenario.maxBatchSize),
        }));
        const { ran } = await play({ ...scenario, calls });
        const order = ran.flatMap(({ items }) => items.map(({ id }) => Number(id)));
        const expected = [...calls.keys()].toSorted(
          (a, b) => (calls[a] as Call).atMs - (calls[b] as Call).atMs || a - b,
        );
        expect(order).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  }, 120_000);

  test("a window batch that is not full waits its window from the oldest arrival, or for room, and no longer", async () => {
    await fc.assert(
      fc.asyncProperty(calm, async (base) => {
        const scenario = { ...base, policy: "window" as const, padded: false };
        const calls = scenario.calls.map((call) => ({ ...call, priority: 0, size: 1 }));
        const starts: { readonly atMs: number; readonly oldestAtMs: number; readonly items: number }[] = [];
        const clock = new FakeClock();
        const endsMs: number[] = [];
        const batcher = new Batcher<number, number>({
          clock,
          policy: "window",
          maxBatchSize: scenario.maxBatchSize,
          maxInFlightBatches: 1,
          batchTimeoutMicros: scenario.batchTimeoutMicros,
          run: ({ items }) =>
            new Promise((resolve) => {
              const takesMs = scenario.runMs[starts.length % scenario.runMs.length] as number;
              starts.push({ atMs: clock.now(), oldestAtMs: items[0] as number, items: items.length });
              endsMs.push(clock.now() + takesMs);
              clock.schedule(() => resolve(items), takesMs);
            }),
        });
        for (const { atMs } of calls) {
          clock.schedule(() => void batcher.submit(atMs), atMs);
        }
        await clock.advanceMs(5000);
        for (const [i, { atMs, oldestAtMs, items }] of starts.entries()) {
          const roomAtMs = i === 0 ? 0 : (endsMs[i - 1] as number);
          const dueMs = Math.max(roomAtMs, oldestAtMs + scenario.batchTimeoutMicros / 1000);
          if (items < scenario.maxBatchSize) {
            expect(atMs).toBeCloseTo(dueMs, 9);
          } else {
            expect(atMs).toBeLessThanOrEqual(dueMs + 1e-9);
          }
        }
      }),
      { numRuns: 200 },
    );
  }, 120_000);
});
