import type { GatherPlan } from "@dlrm/embedding";
import { expect, test } from "vitest";
import { SlotPool } from "./slot-pool.ts";

const poolOf = (maxSlots: number): SlotPool =>
  new SlotPool({ placedRows: 4, largestBucket: 2, denseFeatures: 1, pooledWidth: 2, maxSlots });

test("requests get consecutive rows of one slot until it is full, then of another, then none", () => {
  const pool = poolOf(2);
  const first = pool.withRoom(3)!;
  first.used += 3;
  first.users++;
  expect(pool.withRoom(1)).toBe(first);
  const second = pool.withRoom(2)!;
  expect(second).not.toBe(first);
  second.used += 2;
  second.users++;
  expect(pool.withRoom(4)).toBeUndefined();
  pool.release(first);
  expect(pool.withRoom(4)).toBe(first);
  expect(first.used).toBe(0);
  expect(pool.withRoom(5)).toBeUndefined();
});

test("a sealed slot takes nothing more, and is used again when nobody needs it", () => {
  const pool = poolOf(2);
  const slot = pool.withRoom(1)!;
  slot.used++;
  slot.users++;
  pool.seal(slot);
  expect(pool.withRoom(1)).not.toBe(slot);
  pool.release(slot);
  const own = pool.take();
  expect(own).toBe(slot);
  expect({ used: own.used, users: own.users }).toEqual({ used: 0, users: 1 });
  pool.release(own);
});

test("an open slot that nobody needs begins again at its first row", () => {
  const pool = poolOf(1);
  const slot = pool.withRoom(3)!;
  slot.used += 3;
  slot.users++;
  pool.release(slot);
  expect(pool.withRoom(4)).toBe(slot);
});

test("batches in the middle of a slot are read and written where they stand, and can be copied", () => {
  const pool = poolOf(2);
  const plan = {
    gather: (ids: Int32Array, batch: number, output: Float32Array, row: number) => {
      for (let index = 0; index < batch * 2; index++) output[row * 2 + index] = ids[0]! * 10 + index;
    },
  } as Partial<GatherPlan> as GatherPlan;
  const slot = pool.withRoom(3)!;
  slot.place({ batch: 1, dense: Float32Array.of(1), ids: Int32Array.of(1) }, plan, 0);
  slot.place({ batch: 2, dense: Float32Array.of(2, 3), ids: Int32Array.of(2) }, plan, 1);
  expect([...slot.inputsFrom(0)["dense"]!.subarray(0, 3)]).toEqual([1, 2, 3]);
  expect([...slot.inputsFrom(1)["dense"]!.subarray(0, 2)]).toEqual([2, 3]);
  expect([...slot.inputsFrom(1)["pooled"]!.subarray(0, 4)]).toEqual([20, 21, 22, 23]);
  slot.outputsFrom(1)["scores"]!.set([0.25, 0.5]);
  expect([...slot.scores.subarray(0, 3)]).toEqual([0, 0.25, 0.5]);
  const own = pool.take();
  own.copy(slot, 1, 0, 2);
  expect([...own.inputsFrom(0)["dense"]!.subarray(0, 3)]).toEqual([2, 3, 0]);
  expect([...own.inputsFrom(0)["pooled"]!.subarray(0, 6)]).toEqual([20, 21, 22, 23, 0, 0]);
});

test("the first requests find the memory of all slots there, also when some hundred wait", () => {
  const rows = 512;
  const pool = new SlotPool({ placedRows: rows, largestBucket: 1, denseFeatures: 1, pooledWidth: 4096, maxSlots: 2 });
  const plan = {
    gather: (_ids: Int32Array, _batch: number, output: Float32Array, row: number) =>
      output.fill(1, row * 4096, (row + 1) * 4096),
  } as unknown as GatherPlan;
  const request = { batch: 1, dense: new Float32Array(1), ids: new Int32Array(1) };
  const faultsBefore = process.resourceUsage().minorPageFault;
  for (let slot = 0; slot < 2; slot++) {
    const open = pool.withRoom(rows)!;
    for (let row = 0; row < rows; row++) open.place(request, plan, row);
    open.used = rows;
    open.users = 1;
  }
  // 4096 pages of 4 KiB, were they not there.
  expect(process.resourceUsage().minorPageFault - faultsBefore).toBeLessThan(1024);
});

test("slots that were made for batches of their own do not let more be placed", () => {
  const pool = poolOf(1);
  const slot = pool.withRoom(4)!;
  slot.used = 4;
  slot.users++;
  const own = pool.take();
  pool.release(own);
  expect(pool.withRoom(1)).toBeUndefined();
  expect(pool.take()).toBe(own);
  pool.release(slot);
  expect(pool.withRoom(1)).toBe(slot);
});

test("in place of a slot in which a device hangs another is used", () => {
  const pool = poolOf(1);
  const slot = pool.withRoom(1)!;
  slot.used++;
  slot.users++;
  pool.lose(slot);
  const next = pool.withRoom(1)!;
  expect(next).not.toBe(slot);
  next.used += 4;
  next.users++;
  expect(pool.withRoom(1)).toBeUndefined();
});

test("a slot that is made while requests are served has its memory only as its rows are used", () => {
  const pool = new SlotPool({ placedRows: 512, largestBucket: 1, denseFeatures: 1, pooledWidth: 4096, maxSlots: 1 });
  pool.withRoom(1);
  const faultsBefore = process.resourceUsage().minorPageFault;
  pool.take();
  // 2048 pages of 4 KiB, were they all given now.
  expect(process.resourceUsage().minorPageFault - faultsBefore).toBeLessThan(512);
});
