import { describe, expect, test } from "vitest";
import type { BatcherOptions } from "./index.ts";
import { Batcher } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

const RUN_MS = 10;

/** A clock of an event loop whose turns end when the test says so. */
class TurnClock extends FakeClock {
  #callbacks: (() => void)[] = [];

  get awaitedTurns(): number {
    return this.#callbacks.length;
  }

  afterTurn(callback: () => void): void {
    this.#callbacks.push(callback);
  }

  async endTurn(): Promise<void> {
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    for (const callback of callbacks) callback();
    await this.settle();
  }
}

interface Rig {
  readonly clock: TurnClock;
  readonly batcher: Batcher<number, number>;
  /** The items of each batch so far. */
  readonly batches: (readonly number[])[];
}

function rig(options: Partial<BatcherOptions<number, number>> = {}): Rig {
  const clock = new TurnClock();
  const batches: (readonly number[])[] = [];
  const batcher = new Batcher<number, number>({
    clock,
    maxBatchSize: 8,
    run: ({ items }) =>
      new Promise((resolve) => {
        batches.push(items);
        clock.schedule(() => resolve(items), RUN_MS);
      }),
    ...options,
  });
  return { clock, batcher, batches };
}

/** Two callers were answered, and neither is back; a batch is known to take `RUN_MS`. */
async function withMissingCallers(options: Partial<BatcherOptions<number, number>> = {}): Promise<Rig> {
  const made = rig(options);
  const { clock, batcher, batches } = made;
  void batcher.submit(-1);
  void batcher.submit(-2);
  await clock.advanceMs(RUN_MS);
  expect(batches.splice(0)).toEqual([[-1, -2]]);
  return made;
}

describe("policy adaptive, on a clock that knows the turns of an event loop", () => {
  test("makes one batch of what one turn brings, while callers are missing", async () => {
    const { clock, batcher, batches } = await withMissingCallers();
    const first = batcher.submit(1);
    await clock.settle();
    await clock.advanceMs(0.1);
    const second = batcher.submit(2);
    await clock.settle();
    expect(batches).toEqual([]);
    await clock.endTurn();
    expect(batches).toEqual([[1, 2]]);
    await clock.advanceMs(RUN_MS);
    expect(await Promise.all([first, second])).toEqual([1, 2]);
    expect(batcher.stats().batches).toMatchObject({ idle: 2, timeout: 0 });
  });

  test("waits for no turn when nobody is missing", async () => {
    const { clock, batcher, batches } = await withMissingCallers();
    void batcher.submit(1);
    void batcher.submit(2);
    await clock.settle();
    expect(batches).toEqual([[1, 2]]);
    expect(clock.awaitedTurns).toBe(0);
  });

  test("waits no longer than a run, however long the turn is", async () => {
    const { clock, batcher, batches } = await withMissingCallers();
    void batcher.submit(1);
    await clock.advanceMs(RUN_MS - 0.001);
    void batcher.submit(2);
    await clock.settle();
    expect(batches).toEqual([]);
    await clock.advanceMs(0.001);
    void batcher.submit(3);
    await clock.settle();
    expect(batches).toEqual([[1, 2, 3]]);
    await clock.endTurn();
    expect(batches.length).toBe(1);
  });

  test("sends a full batch at once", async () => {
    const { clock, batcher, batches } = await withMissingCallers();
    void batcher.submit(1);
    await clock.settle();
    for (let item = 2; item <= 8; item += 1) void batcher.submit(item);
    await clock.settle();
    expect(batches).toEqual([[1, 2, 3, 4, 5, 6, 7, 8]]);
  });

  test("an item that would miss its deadline ends the wait", async () => {
    const { clock, batcher, batches } = await withMissingCallers();
    void batcher.submit(1);
    await clock.settle();
    void batcher.submit(2, { deadlineMs: RUN_MS });
    await clock.settle();
    expect(batches).toEqual([[1, 2]]);
  });

  test("a turn that ends with nothing left to wait for makes no batch, and the next one is waited for again", async () => {
    const { clock, batcher, batches } = await withMissingCallers();
    const abort = new AbortController();
    const dropped = batcher.submit(1, { signal: abort.signal });
    await clock.settle();
    abort.abort();
    await expect(dropped).rejects.toMatchObject({ code: "cancelled" });
    await clock.endTurn();
    expect(batches).toEqual([]);
    expect(clock.awaitedTurns).toBe(0);
  });

  test("in Node, what two events of one turn bring goes together", async () => {
    const batches: (readonly number[])[] = [];
    const batcher = new Batcher<number, number>({
      maxBatchSize: 8,
      // Long enough for the turn to end within it.
      run: async ({ items }) => {
        batches.push(items);
        await new Promise((resolve) => setTimeout(resolve, items.length === 3 ? 50 : 0));
        return items;
      },
    });
    await Promise.all([batcher.submit(1), batcher.submit(2), batcher.submit(3)]);
    const answers: Promise<number>[] = [];
    await new Promise<void>((resolve) => {
      setImmediate(() => answers.push(batcher.submit(4)));
      setImmediate(() => {
        answers.push(batcher.submit(5));
        resolve();
      });
    });
    expect(await Promise.all(answers)).toEqual([4, 5]);
    expect(batches).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
  });

  test("other policies wait for no turn", async () => {
    const off = await withMissingCallersOff();
    void off.batcher.submit(1);
    await off.clock.settle();
    expect(off.batches).toEqual([[1]]);
    expect(off.clock.awaitedTurns).toBe(0);
  });
});

async function withMissingCallersOff(): Promise<Rig> {
  const made = rig({ policy: "off" });
  void made.batcher.submit(-1);
  await made.clock.advanceMs(RUN_MS);
  made.batches.splice(0);
  return made;
}

test("a policy of one's own may wait for the end of a turn, and by a timer where the clock knows none", async () => {
  const decide = ({ nowMs, items }: { readonly nowMs: number; readonly items: number }) =>
    items > 1 || nowMs >= 5
      ? { flush: true as const, reason: "idle" as const, maxItems: Infinity, maxSize: Infinity }
      : {
          flush: false as const,
          untilMs: 5,
          untilItems: Infinity,
          untilSize: Infinity,
          runMs: 0,
          untilTurnEnds: true,
        };
  const policy = { decide, arrived() {}, answered() {} };
  const turns = rig({ policy });
  void turns.batcher.submit(1);
  await turns.clock.settle();
  void turns.batcher.submit(2);
  await turns.clock.settle();
  expect(turns.batches).toEqual([]);
  await turns.clock.endTurn();
  expect(turns.batches).toEqual([[1, 2]]);

  const clock = new FakeClock();
  const { batcher, batches } = rig({ policy, clock });
  void batcher.submit(1);
  await clock.advanceMs(4.999);
  expect(batches).toEqual([]);
  await clock.advanceMs(0.001);
  expect(batches).toEqual([[1]]);
});
