import { describe, expect, test } from "vitest";
import type { BatcherOptions, FlushDecision, FlushPolicy, QueueView } from "./index.ts";
import { Batcher, BatcherError } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

const FLUSH: FlushDecision = { flush: true, reason: "idle", maxItems: Infinity, maxSize: Infinity };

/** Flushes at once, unless told otherwise. */
function policyWith(methods: Partial<FlushPolicy>): FlushPolicy {
  return { decide: () => FLUSH, arrived: () => {}, answered: () => {}, ...methods };
}

/** Throws once, when it is first called. */
function failingOnce(cause: unknown): () => undefined {
  let calls = 0;
  return () => {
    calls += 1;
    if (calls === 1) {
      throw cause;
    }
    return undefined;
  };
}

function make(policy: FlushPolicy, options: Partial<BatcherOptions<number, number>> = {}): Batcher<number, number> {
  const run = ({ items }: { readonly items: readonly number[] }): readonly number[] => items;
  return new Batcher<number, number>({ clock: new FakeClock(), maxBatchSize: 2, policy, run, ...options });
}

async function failure(promise: Promise<unknown>): Promise<BatcherError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BatcherError);
  return error as BatcherError;
}

const boom = new Error("boom");
const unspeakable = Object.create(null) as object;

describe("a policy of the caller's", () => {
  test.each([
    ["an error", boom, "the policy threw: boom"],
    ["what cannot be shown", unspeakable, "the policy threw: what was thrown cannot be shown"],
  ])(
    "whose decide throws %s fails the batch that it was asked about, and the next one runs",
    async (_, cause, message) => {
      const decide = failingOnce(cause);
      const ends: (string | undefined)[] = [];
      const hooks = { onBatchEnd: (_info: unknown, _ms: number, error?: BatcherError) => void ends.push(error?.code) };
      const batcher = make(policyWith({ decide: () => decide() ?? FLUSH }), { hooks });
      const results = [1, 2, 3].map((item) => batcher.submit(item));
      expect(await failure(results[0] as Promise<number>)).toMatchObject({ code: "run_failed", message, cause });
      expect(await failure(results[1] as Promise<number>)).toMatchObject({ code: "run_failed", message });
      // Of three items two are a batch.
      expect(await results[2]).toBe(3);
      expect(ends).toEqual(["run_failed", undefined]);
      expect(batcher.stats()).toMatchObject({
        failedBatches: 1,
        failedItems: 2,
        completedItems: 1,
        inFlightBatches: 0,
      });
      await batcher.drain();
    },
  );

  test.each(["arrived", "answered"] as const)(
    "whose %s throws fails the next batch that it is asked about",
    async (name) => {
      const batcher = make(policyWith({ [name]: failingOnce(boom) }));
      const outcomes: string[] = [];
      for (let i = 0; i < 3; i += 1) {
        outcomes.push(await batcher.submit(i).then(String, (error: BatcherError) => error.message));
      }
      const failed = "the policy threw: boom";
      expect(outcomes).toEqual(name === "arrived" ? [failed, "1", "2"] : ["0", failed, "2"]);
    },
  );

  test.each<[unknown, string]>([
    [undefined, "the policy must decide by an object, but gave undefined"],
    [null, "the policy must decide by an object, but gave null"],
    [
      { ...FLUSH, reason: "bored" },
      "the policy must give one of full, idle, timeout, deadline, drain as reason, but gave bored",
    ],
    [
      { ...FLUSH, reason: Object.create(null) },
      "the policy must give one of full, idle, timeout, deadline, drain as reason, but gave an object",
    ],
    [{ ...FLUSH, maxItems: 0 }, "the policy must give a whole number from 1, or Infinity, as maxItems, but gave 0"],
    [{ ...FLUSH, maxItems: 1.5 }, "the policy must give a whole number from 1, or Infinity, as maxItems, but gave 1.5"],
    [{ ...FLUSH, maxItems: 2n }, "the policy must give a whole number from 1, or Infinity, as maxItems, but gave 2"],
    [
      { ...FLUSH, maxItems: Symbol("all") },
      "the policy must give a whole number from 1, or Infinity, as maxItems, but gave Symbol(all)",
    ],
    [
      { ...FLUSH, maxSize: Number.NaN },
      "the policy must give a whole number from 1, or Infinity, as maxSize, but gave NaN",
    ],
    [
      { flush: false, untilMs: Number.NaN, untilItems: 1, untilSize: 1, runMs: 0 },
      "the policy must give a number as untilMs, but gave NaN",
    ],
    [
      { flush: false, untilMs: 1, untilItems: 1, untilSize: 1 },
      "the policy must give a number below Infinity as runMs, but gave undefined",
    ],
    [
      { flush: false, untilMs: 1, untilItems: 1, untilSize: 1, runMs: Infinity },
      "the policy must give a number below Infinity as runMs, but gave Infinity",
    ],
  ])("that decides %o fails the batch, and says what it gave", async (decision, message) => {
    const batcher = make(policyWith({ decide: () => decision as FlushDecision }));
    expect(await failure(batcher.submit(1))).toMatchObject({ code: "run_failed", message });
  });

  test("whose decision cannot be read fails the batch", async () => {
    const decide = (): FlushDecision => ({
      ...FLUSH,
      get maxSize(): number {
        throw boom;
      },
    });
    const error = await failure(make(policyWith({ decide })).submit(1));
    expect(error).toMatchObject({ code: "run_failed", message: "the policy threw: boom", cause: boom });
  });

  test("makes no batch larger than maxBatchSize", async () => {
    const views: QueueView[] = [];
    const sizes: number[] = [];
    const batcher = make(policyWith({ decide: (view) => (views.push(view), FLUSH) }), {
      hooks: { onBatchStart: ({ size }) => void sizes.push(size) },
    });
    expect(await Promise.all([1, 2, 3, 4, 5].map((item) => batcher.submit(item)))).toEqual([1, 2, 3, 4, 5]);
    expect(sizes).toEqual([2, 2, 1]);
    expect(views.map(({ items }) => items)).toEqual([5, 3, 1]);
  });
});
