import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import type { Backend } from "./backend.ts";
import { BufferNumbers, TensorTable } from "./buffer-table.ts";
import type { SharedFloat32Array } from "./device.ts";

interface FakeTensor {
  readonly name: string;
  readonly bucket: number;
  readonly view: SharedFloat32Array;
}

const backend: Backend<FakeTensor> = {
  name: "fake",
  platform: "cpu",
  inputs: [{ name: "x", width: [3] }],
  outputs: [{ name: "y", width: [] }],
  precision: { name: "float32", quantizedWeights: 0 },
  memory: { kind: "host" },
  addBucket: () => {},
  wrap: ({ name }, bucket, view) => ({ name, bucket, view }),
  run: () => undefined,
  warm: () => undefined,
  close: async () => {},
};

describe("buffer numbers", () => {
  test("are given once for each buffer, and announced before they are used", () => {
    const announced: [number, SharedArrayBuffer][] = [];
    const numbers = new BufferNumbers(
      (id, buffer) => announced.push([id, buffer]),
      () => undefined,
    );
    const [a, b] = [new SharedArrayBuffer(4), new SharedArrayBuffer(4)];
    expect([a, b, a, b].map((buffer) => numbers.idOf(buffer))).toEqual([1, 2, 1, 2]);
    expect(announced).toEqual([
      [1, a],
      [2, b],
    ]);
  });
});

test("a buffer that is garbage is told of by its number", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const garbage: number[] = [];
  const numbers = new BufferNumbers(
    () => undefined,
    (id) => garbage.push(id),
  );
  const kept = new SharedArrayBuffer(8);
  const ids = [numbers.idOf(kept), ((): number => numbers.idOf(new SharedArrayBuffer(8)))()];
  while (garbage.length === 0) {
    collectGarbage();
    await nextTurn();
  }
  expect(garbage).toEqual([ids[1]]);
  expect(numbers.idOf(kept)).toBe(ids[0]);
});

describe("the tensor table", () => {
  test("makes a tensor once for each place and bucket, over the buffer itself", () => {
    const table = new TensorTable(backend, [1, 4]);
    const buffer = new SharedArrayBuffer(64 * 4);
    table.add(7, buffer);
    const tensor = table.tensor(0, 7, 10, 1);
    expect({
      name: tensor.name,
      bucket: tensor.bucket,
      offset: tensor.view.byteOffset,
      length: tensor.view.length,
    }).toEqual({
      name: "x",
      bucket: 4,
      offset: 40,
      length: 12,
    });
    expect(tensor.view.buffer).toBe(buffer);
    expect(table.tensor(0, 7, 10, 1)).toBe(tensor);
    expect(table.tensor(0, 7, 10, 0)).not.toBe(tensor);
    expect(table.tensor(0, 7, 11, 1)).not.toBe(tensor);
    expect(table.tensor(1, 7, 10, 1).name).toBe("y");
    expect(new Set([8, 9, 10, 11].flatMap((at) => [0, 1].map((bucket) => table.tensor(0, 7, at, bucket)))).size).toBe(
      8,
    );
  });

  test("knows a buffer no more once it was told to forget it", () => {
    const table = new TensorTable(backend, [1]);
    table.add(1, new SharedArrayBuffer(64));
    table.tensor(0, 1, 0, 0);
    table.forget(1);
    table.forget(1);
    expect(() => table.tensor(0, 1, 0, 0)).toThrow("buffer 1 was never announced");
  });

  test("starts again rather than keep ever more tensors", () => {
    const table = new TensorTable(backend, [1]);
    table.add(1, new SharedArrayBuffer(4 * 10_000));
    const first = table.tensor(1, 1, 0, 0);
    for (let offset = 1; offset < 8192; offset++) table.tensor(1, 1, offset, 0);
    expect(table.tensor(1, 1, 0, 0)).toBe(first);
    const last = table.tensor(1, 1, 8192, 0);
    expect(table.tensor(1, 1, 8192, 0)).toBe(last);
    expect(table.tensor(1, 1, 0, 0)).not.toBe(first);
  });
});
