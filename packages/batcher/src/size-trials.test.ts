import { describe, expect, test } from "vitest";
import { BatchSizes } from "./batch-sizes.ts";
import { CostModel } from "./cost-model.ts";
import { SizeTrials } from "./size-trials.ts";

const MAX_BATCH_SIZE = 64;

interface Trial {
  /** The how manyeth batch it was, from 1. */
  readonly batch: number;
  readonly size: number;
}

/** The batches that did not have the usual size, of `batches` in all; each was told to the model, with a cost that grows as `steep` says. */
function trialsOf(
  {
    usual,
    waiting,
    itemSize = 1,
    steep = false,
    sizes,
  }: Readonly<{
    usual: number;
    waiting: number;
    itemSize?: number;
    steep?: boolean;
    sizes?: readonly number[];
  }>,
  batches: number,
): Trial[] {
  const cost = new CostModel();
  const runMs = (size: number): number => (steep ? size ** 2 : 10 + size);
  const told = new BatchSizes(sizes);
  // Measured already, whatever the usual size is.
  for (let i = 0; i < 3; i += 1) {
    cost.observe(usual, runMs(usual));
    cost.observe(MAX_BATCH_SIZE * 4, runMs(MAX_BATCH_SIZE * 4));
  }
  const trials = new SizeTrials(cost, told, MAX_BATCH_SIZE);
  const tried: Trial[] = [];
  for (let batch = 1; batch <= batches; batch += 1) {
    const size = trials.sizeOf(usual, waiting, itemSize);
    if (size !== usual) {
      tried.push({ batch, size });
    }
    const padded = told.atLeast(Math.max(size, itemSize));
    cost.observe(padded, runMs(padded));
  }
  return tried;
}

describe("trials of other sizes", () => {
  test("go on where the clock is too coarse to tell how much dearer twice the size is", () => {
    const cost = new CostModel();
    for (let i = 0; i < 3; i += 1) {
      cost.observe(8, 0);
      cost.observe(16, 0);
      cost.observe(32, 1);
    }
    const trials = new SizeTrials(cost, new BatchSizes(undefined), MAX_BATCH_SIZE);
    const sizes = Array.from({ length: 256 }, () => trials.sizeOf(16, 100, 1));
    expect([...sizes.entries()].filter(([, size]) => size !== 16)).toEqual([
      [127, 32],
      [255, 32],
    ]);
  });

  test("one batch in 128: half the size until that is known, then twice, for ever", () => {
    expect(trialsOf({ usual: 16, waiting: 100 }, 128 * 6)).toEqual([
      { batch: 128, size: 8 },
      { batch: 256, size: 8 },
      { batch: 384, size: 8 },
      { batch: 512, size: 32 },
      { batch: 640, size: 32 },
      { batch: 768, size: 32 },
    ]);
  });

  test("one in eight while little is known and cost is steep; then twice the size, twice as dear, one in 8 * 128", () => {
    expect(trialsOf({ usual: 16, waiting: 100, steep: true }, 2048)).toEqual([
      ...[8, 16, 24].map((batch) => ({ batch, size: 8 })),
      ...[32, 40, 48].map((batch) => ({ batch, size: 32 })),
      ...[1024, 2048].map((batch) => ({ batch, size: 32 })),
    ]);
  });

  test("none of twice the size if less waits, or the largest batch is no larger", () => {
    expect(trialsOf({ usual: 16, waiting: 31 }, 1024).map(({ size }) => size)).toEqual([8, 8, 8]);
    expect(trialsOf({ usual: 64, waiting: 1000 }, 1024).map(({ size }) => size)).toEqual([32, 32, 32]);
    expect(trialsOf({ usual: 48, waiting: 1000 }, 1024).map(({ size }) => size)).toEqual([
      16, 16, 16, 64, 64, 64, 64, 64,
    ]);
  });

  test("of allowed sizes only", () => {
    const sizes = [1, 10, 20, 64];
    expect(trialsOf({ usual: 20, waiting: 1000, sizes }, 512)).toEqual([
      { batch: 128, size: 1 },
      { batch: 256, size: 1 },
      { batch: 384, size: 1 },
      { batch: 512, size: 64 },
    ]);
    expect(trialsOf({ usual: 1, waiting: 1000, sizes }, 128)).toEqual([{ batch: 128, size: 10 }]);
  });

  test("none that no item fits into, and no more than three of a size that items do not fill", () => {
    expect(trialsOf({ usual: 16, waiting: 16, itemSize: 9 }, 1024)).toEqual([]);
    const cost = new CostModel();
    const trials = new SizeTrials(cost, new BatchSizes(undefined), MAX_BATCH_SIZE);
    const sizes = Array.from({ length: 1024 }, () => trials.sizeOf(16, 16, 3)).filter((size) => size !== 16);
    expect(sizes).toEqual([8, 8, 8]);
  });

  test("none of a single item", () => {
    expect(trialsOf({ usual: 1, waiting: 1, steep: true }, 1024)).toEqual([]);
  });
});
