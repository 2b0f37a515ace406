import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { float32Tensor, npyBytes, writeSafetensors } from "../test/tables.ts";
import { EmbeddingError } from "./embedding-error.ts";
import { attachEmbeddingStore, openEmbeddingStore } from "./embedding-store.ts";
import type { EmbeddingStore } from "./embedding-store.ts";
import { KERNELS_TO_TEST } from "../test/kernels.ts";

const rowsOf = (...data: number[]) => ({ rows: { t: { dim: 2, data: Float32Array.from(data) } } });

let dir = "";
let path = "";
const features = [
  { table: "colours", hotSize: 2 },
  { table: "shapes", hotSize: 1 },
];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "embedding-store-"));
  path = join(dir, "tables.safetensors");
  await writeSafetensors(path, {
    colours: float32Tensor(3, 2, [1, 2, 10, 20, 100, 200]),
    __padding_0: { dtype: "U8", shape: [3], bytes: new Uint8Array(3) },
    shapes: float32Tensor(2, 3, [0.5, 0.25, 0.125, -1, -2, -3]),
  });
});
afterAll(() => rm(dir, { recursive: true }));

describe.each(KERNELS_TO_TEST)("with the %s kernel, a store", (kernel) => {
  const open = () => openEmbeddingStore({ safetensors: path }, { kernel });

  async function withStore(use: (store: EmbeddingStore) => Promise<void> | void): Promise<void> {
    const store = await open();
    try {
      await use(store);
    } finally {
      store.close();
    }
  }

  test("describes its tables, leaving padding out", () =>
    withStore((store) => {
      expect(store.tables.map(({ name, rows, dim, dtype }) => ({ name, rows, dim, dtype }))).toEqual([
        { name: "colours", rows: 3, dim: 2, dtype: "float32" },
        { name: "shapes", rows: 2, dim: 3, dtype: "float32" },
      ]);
      expect(store.tableBytes).toBe(48);
      expect(store.kernel.name).toContain(kernel);
      expect(store.kernel.prefetch).toEqual(
        kernel === "native" ? expect.stringMatching(/^\d+ bytes ahead, every (64|128) bytes$/) : undefined,
      );
    }));

  test("sums the rows of each bag into the rows asked for, and touches no others", () =>
    withStore((store) => {
      const plan = store.plan(features);
      expect([plan.idsPerExample, plan.outputWidth]).toEqual([3, 5]);
      const output = new Float32Array(new SharedArrayBuffer(4 * 5 * 4)).fill(7);
      // Two examples: colours [0, 1] and [2, 2], shapes [1] and [0].
      plan.gather(Int32Array.of(0, 1, 2, 2, 1, 0), 2, output, 1);
      const rows = [0, 1, 2, 3].map((row) => Array.from(output.subarray(row * 5, row * 5 + 5)));
      expect(rows).toEqual([
        [7, 7, 7, 7, 7],
        [11, 22, -1, -2, -3],
        [200, 400, 0.5, 0.25, 0.125],
        [7, 7, 7, 7, 7],
      ]);
    }));

  test("takes plain and shared, longer and offset arrays alike", () =>
    withStore((store) => {
      const plan = store.plan(features);
      for (const make of [(n: number) => new ArrayBuffer(n), (n: number) => new SharedArrayBuffer(n)]) {
        const ids = new Int32Array(make(64), 8, 5);
        ids.set([1, 2, 1, 99, 99]);
        const output = new Float32Array(make(64), 4, 10);
        for (let call = 0; call < 3; call++) plan.gather(ids, 1, output, 1);
        expect([...output]).toEqual([0, 0, 0, 0, 0, 110, 220, -1, -2, -3]);
      }
    }));

  test("answers a batch of none by writing nothing", () =>
    withStore((store) => {
      const output = Float32Array.of(3);
      store.plan(features).gather(new Int32Array(0), 0, output, 0);
      expect([...output]).toEqual([3]);
    }));

  test.each([3, -1, 2_147_483_647, -2_147_483_648])("refuses id %d before anything is written", (id) =>
    withStore((store) => {
      const plan = store.plan(features);
      const ids = Int32Array.of(0, 1, 2, id, 1, 0);
      const place = { feature: 0, example: 1, position: 1, id };
      expect(plan.findOutOfVocabulary(ids, 2)).toEqual(place);
      const output = new Float32Array(10).fill(7);
      const error = thrown(() => plan.gather(ids, 2, output, 0));
      expect(error).toMatchObject({ code: "out_of_vocabulary", outOfVocabulary: place });
      expect(error.message).toBe(
        `id ${id} of feature 0, example 1, position 1 is not a row of table "colours", expected 0 … 2`,
      );
      expect([...output]).toEqual(Array.from({ length: 10 }, () => 7));
      expect(plan.findOutOfVocabulary(Int32Array.of(0, 1, 2, 2, 1, 0), 2)).toBeUndefined();
    }),
  );

  test("refuses arguments out of range, with nothing written", () =>
    withStore((store) => {
      const plan = store.plan(features);
      const output = new Float32Array(5);
      expect(thrown(() => plan.gather(new Int32Array(2), 1, output, 0)).code).toBe("invalid_argument");
      expect(thrown(() => plan.gather(new Int32Array(3), 1, output, 1)).code).toBe("invalid_argument");
      expect(thrown(() => plan.gather(new Int32Array(3), 2 ** 32, output, 0)).code).toBe("invalid_argument");
      expect(thrown(() => plan.gather(new Int32Array(3), 1, output, -1)).code).toBe("invalid_argument");
      expect([...output]).toEqual([0, 0, 0, 0, 0]);
    }));

  test.each([
    ["zero", { kind: "zero" } as const, [0, -5, 0, 99], [2, 4]],
    ["default-row", { kind: "default-row", row: 1 } as const, [0, -5, 0, 99], [22, 44]],
    // 7 mod 3 = 1, and -4 mod 3 = 2.
    ["modulo", { kind: "modulo" } as const, [0, 7, -4, 0], [112, 224]],
  ])("applies the policy %s to ids without a row", async (_, policy, ids, expected) => {
    const outOfVocabulary = { tables: { colours: policy } };
    const store = await openEmbeddingStore({ safetensors: path }, { kernel, outOfVocabulary });
    const output = new Float32Array(2);
    const plan = store.plan([{ table: "colours", hotSize: 4 }]);
    expect(plan.findOutOfVocabulary(Int32Array.from(ids), 1)).toBeUndefined();
    plan.gather(Int32Array.from(ids), 1, output, 0);
    expect([...output]).toEqual(expected);
    const shapes = store.plan([{ table: "shapes", hotSize: 1 }]);
    expect(shapes.findOutOfVocabulary(Int32Array.of(2), 1)).toEqual({ feature: 0, example: 0, position: 0, id: 2 });
    store.close();
  });

  test("pools ragged bags", async () => {
    const outOfVocabulary = { tables: { colours: { kind: "zero" } } } as const;
    const store = await openEmbeddingStore({ safetensors: path }, { kernel, outOfVocabulary });
    const plan = store.plan(features);
    const output = new Float32Array(10);
    // colours: [0, 9, 2] and []; shapes: [1] and [0, 1].
    const ids = Int32Array.of(0, 9, 2, 1, 0, 1);
    plan.gatherRagged(ids, Int32Array.of(3, 0, 1, 2), 2, output, 0);
    expect(Array.from(output)).toEqual([101, 202, -1, -2, -3, 0, 0, -0.5, -1.75, -2.875]);
    expect(store.outOfVocabularyCounts()).toEqual({ colours: 1 });
    const refused = { feature: 1, example: 1, position: 1, id: 2 };
    expect(
      thrown(() => plan.gatherRagged(ids.with(5, 2), Int32Array.of(3, 0, 1, 2), 2, output, 0)).outOfVocabulary,
    ).toEqual(refused);
    for (const lengths of [Int32Array.of(3, 0, 1), Int32Array.of(3, 0, 1, 3), Int32Array.of(3, -1, 1, 2)]) {
      expect(thrown(() => plan.gatherRagged(ids, lengths, 2, output, 0)).code).toBe("invalid_argument");
    }
    store.close();
  });

  test("counts ids without a row where they are not refused", async () => {
    const outOfVocabulary = { tables: { colours: { kind: "zero" }, shapes: { kind: "modulo" } } } as const;
    const store = await openEmbeddingStore({ safetensors: path }, { kernel, outOfVocabulary });
    const plan = store.plan(features);
    expect(store.outOfVocabularyCounts()).toEqual({});
    plan.gather(Int32Array.of(0, 3, -1, 2, 1, 2), 2, new Float32Array(10), 0);
    expect(store.outOfVocabularyCounts()).toEqual({ colours: 2, shapes: 1 });
    store.close();
  });

  test("takes int64 ids, beyond 2^53 too", async () => {
    const outOfVocabulary = { tables: { colours: { kind: "zero" }, shapes: { kind: "modulo" } } } as const;
    const store = await openEmbeddingStore({ safetensors: path }, { kernel, outOfVocabulary });
    const plan = store.plan(features);
    const narrow = new Int32Array(3);
    expect(plan.narrowIds(BigInt64Array.of(1n, 2n ** 32n, 2n ** 62n + 1n), 1, narrow)).toBeUndefined();
    const output = new Float32Array(5);
    plan.gather(narrow, 1, output, 0);
    expect(Array.from(output)).toEqual([10, 20, -1, -2, -3]);
    expect(plan.narrowIds(BigInt64Array.of(1n, 1n, -(2n ** 62n) - 1n), 1, narrow)).toBeUndefined();
    expect(Array.from(narrow)).toEqual([1, 1, 1]);
    store.close();
  });

  test("refuses int64 ids that int32 arithmetic would take for rows", () =>
    withStore((store) => {
      const plan = store.plan(features);
      const place = { feature: 0, example: 0, position: 1, id: 2 ** 32 };
      expect(plan.narrowIds(BigInt64Array.of(1n, 2n ** 32n, 0n), 1, new Int32Array(3))).toEqual(place);
      expect(thrown(() => plan.narrowIds(new BigInt64Array(2), 1, new Int32Array(3))).code).toBe("invalid_argument");
      expect(thrown(() => plan.narrowIds(new BigInt64Array(3), 1, new Int32Array(2))).code).toBe("invalid_argument");
    }));

  test("opens a .npy file a table, and rows in memory", async () => {
    const file = join(dir, "colours.npy");
    const dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
    await writeFile(file, npyBytes(dict, new Uint8Array(Float32Array.of(1, 2, 10, 20, 100, 200).buffer)));
    const data = Float32Array.of(9, 1, 2, 10, 20, 100, 200).subarray(1);
    for (const source of [{ npy: { colours: file } }, { rows: { colours: { dim: 2, data } } }]) {
      const store = await openEmbeddingStore(source, { kernel });
      const output = new Float32Array(2);
      store.plan([{ table: "colours", hotSize: 3, pooling: "mean" }]).gather(Int32Array.of(2, 0, 1), 1, output, 0);
      expect(Array.from(output)).toEqual([37, 74]);
      store.close();
    }
  });

  test("is used by other threads without a copy", () =>
    withStore(async (store) => {
      const output = new Float32Array(new SharedArrayBuffer(40));
      const worker = new Worker(new URL("../test/gather-worker.ts", import.meta.url), {
        workerData: { handle: store.handle(), features, ids: Int32Array.of(0, 1, 2, 2, 1, 0), batch: 2, output },
        execArgv: process.execArgv,
      });
      const exitCode = await new Promise((resolve, reject) => {
        worker.on("error", reject);
        worker.on("exit", resolve);
      });
      expect(exitCode).toBe(0);
      expect([...output]).toEqual([11, 22, -1, -2, -3, 200, 400, 0.5, 0.25, 0.125]);
    }));

  test("refuses use after close, and closes twice", async () => {
    const store = await open();
    const plan = store.plan(features);
    store.close();
    store.close();
    for (const use of [
      () => plan.gather(new Int32Array(3), 1, new Float32Array(5), 0),
      () => plan.findOutOfVocabulary(new Int32Array(3), 1),
      () => store.plan(features),
      () => store.handle(),
    ]) {
      expect(thrown(use).code).toBe("closed");
    }
  });

  test("multiplies rows by weights", () =>
    withStore((store) => {
      const plan = store.plan([
        { table: "colours", hotSize: 2 },
        { table: "shapes", hotSize: 2, pooling: "mean" },
      ]);
      const output = new Float32Array(5);
      const ids = Int32Array.of(0, 2, 1, 0);
      const weights = Float32Array.of(2, -0.5, 4, 8);
      plan.gather(ids, 1, output, 0, weights);
      // 2 * [1, 2] - 0.5 * [100, 200], and half of 4 * [-1, -2, -3] + 8 * [0.5, 0.25, 0.125].
      expect(Array.from(output)).toEqual([-48, -96, 0, -3, -5.5]);
      plan.gatherRagged(Int32Array.of(0, 2, 1), Int32Array.of(2, 1), 1, output, 0, weights);
      expect(Array.from(output)).toEqual([-48, -96, -4, -8, -12]);
      for (const bad of [weights.subarray(1), [1, 2, 3, 4] as unknown as Float32Array]) {
        expect(thrown(() => plan.gather(ids, 1, output, 0, bad)).code).toBe("invalid_argument");
        expect(thrown(() => plan.gatherRagged(ids, Int32Array.of(2, 2), 1, output, 0, bad)).code).toBe(
          "invalid_argument",
        );
      }
    }));

  test("replaces rows, and refuses updates out of range with nothing changed", async () => {
    const store = await openEmbeddingStore(rowsOf(1, 2, 3, 4, 5, 6), { kernel });
    const plan = store.plan([{ table: "t", hotSize: 1 }]);
    const pooled = () => {
      const output = new Float32Array(6);
      plan.gather(Int32Array.of(0, 1, 2), 3, output, 0);
      return Array.from(output);
    };
    const good = { table: "t", firstRow: 1, rows: Float32Array.of(30, 40, 50, 60) };
    for (const [bad, code] of [
      [{ ...good, table: "u" }, "unknown_table"],
      [{ ...good, firstRow: 2 }, "invalid_argument"],
      [{ ...good, firstRow: -1 }, "invalid_argument"],
      [{ ...good, firstRow: 0.5 }, "invalid_argument"],
      [{ ...good, rows: Float32Array.of(1) }, "invalid_argument"],
    ] as const) {
      expect(thrown(() => store.update([good, bad])).code).toBe(code);
    }
    expect(pooled()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(store.update([good])).toBe(1);
    expect(pooled()).toEqual([1, 2, 30, 40, 50, 60]);
    const shared = new Float32Array(new SharedArrayBuffer(8)).fill(7);
    expect(store.update([{ table: "t", firstRow: 0, rows: shared }])).toBe(2);
    expect(pooled()).toEqual([7, 7, 30, 40, 50, 60]);
    store.close();
  });

  test("reports progress up to all of its bytes", async () => {
    const seen: [number, number][] = [];
    const store = await openEmbeddingStore({ safetensors: path }, { kernel, onProgress: (...at) => seen.push(at) });
    store.close();
    expect(seen.at(-1)).toEqual([48, 48]);
  });

  test("stops loading when its signal is aborted", async () => {
    await expect(
      openEmbeddingStore({ safetensors: path }, { kernel, signal: AbortSignal.abort("enough") }),
    ).rejects.toMatchObject({
      code: "aborted",
      cause: "enough",
    });
  });
});

describe.runIf(KERNELS_TO_TEST.includes("native"))("a native store", () => {
  test("maps a file, and cannot be attached to once closed", async () => {
    const store = await openEmbeddingStore({ safetensors: path }, { kernel: "native", mode: "mmap" });
    const output = new Float32Array(2);
    const plan = store.plan([{ table: "colours", hotSize: 2 }]);
    plan.gather(Int32Array.of(2, 0), 1, output, 0);
    expect(Array.from(output)).toEqual([101, 202]);
    // Updates of a mapped table do not touch the file.
    store.update([{ table: "colours", firstRow: 0, rows: Float32Array.of(0, 0) }]);
    plan.gather(Int32Array.of(2, 0), 1, output, 0);
    expect(Array.from(output)).toEqual([100, 200]);
    const handle = store.handle();
    store.close();
    expect(thrown(() => attachEmbeddingStore(handle)).code).toBe("closed");
    const again = await openEmbeddingStore({ safetensors: path }, { kernel: "native", mode: "mmap" });
    again.plan([{ table: "colours", hotSize: 2 }]).gather(Int32Array.of(2, 0), 1, output, 0);
    expect(Array.from(output)).toEqual([101, 202]);
    again.close();
  });

  test("keeps the memory of arrays it knows while they are used, whatever the collector does", async () => {
    const store = await openEmbeddingStore(rowsOf(1, 2, 3, 4), { kernel: "native" });
    const plan = store.plan([{ table: "t", hotSize: 1 }]);
    for (let round = 0; round < 2000; round++) {
      const ids = new Int32Array(new SharedArrayBuffer(4)).fill(round % 2);
      const output = new Float32Array(new SharedArrayBuffer(8));
      plan.gather(ids, 1, output, 0);
      expect(output[0]).toBe(round % 2 === 0 ? 1 : 3);
    }
    store.close();
  });
});

test("a kernel that cannot map says so", async () => {
  await expect(openEmbeddingStore({ safetensors: path }, { kernel: "wasm", mode: "mmap" })).rejects.toMatchObject({
    code: "unsupported",
  });
});

describe("openEmbeddingStore refuses", () => {
  const refusal = async (file: string, options = {}) =>
    openEmbeddingStore({ safetensors: file }, options).then(
      () => undefined,
      (error: unknown) => error,
    );

  test("a file that is not there", async () => {
    expect(await refusal(join(dir, "absent"))).toMatchObject({ code: "io", cause: { code: "ENOENT" } });
  });

  test("a truncated file, naming table and offset", async () => {
    const cut = join(dir, "cut.safetensors");
    await writeSafetensors(cut, { t: float32Tensor(2, 1, [1, 2]) });
    await truncate(cut, 70);
    const error = (await refusal(cut)) as EmbeddingError;
    expect(error.code).toBe("invalid_file");
    expect(error.message).toMatch(/cut\.safetensors: is truncated: tensor "t" ends at offset \d+, file at 70/);
  });

  test.each([
    ["I32", [2, 1], /table "t" at offset \d+ has dtype I32, expected F32, F16, BF16/],
    ["U8", [2, 4], /has dtype U8 without an "embedding.t" entry in the metadata/],
    ["F32", [2], /has shape \[2\], expected \[rows, dim\]/],
    ["F32", [2, 1, 1], /has shape \[2, 1, 1\], expected \[rows, dim\]/],
  ])("a table of %s %j", async (dtype, shape, message) => {
    const file = join(dir, "wrong.safetensors");
    await writeSafetensors(file, { t: { dtype, shape, bytes: new Uint8Array(8) } });
    const error = (await refusal(file)) as EmbeddingError;
    expect(error.code).toBe("invalid_table");
    expect(error.message).toMatch(message);
  });

  test("a file with another SHA-256 than it must have", async () => {
    const sha256 = createHash("sha256")
      .update(await readFile(path))
      .digest("hex");
    expect(await refusal(path, { sha256: sha256.toUpperCase() })).toBeUndefined();
    const other = sha256.startsWith("0") ? sha256.replace("0", "1") : sha256.replace(/^./, "0");
    expect(await refusal(path, { sha256: other })).toMatchObject({
      code: "invalid_file",
      message: `${path}: has SHA-256 ${sha256}, expected ${other}`,
    });
  });

  test("a .npy file with another SHA-256 than it must have, naming its table", async () => {
    const file = join(dir, "hashed.npy");
    const bytes = npyBytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }", new Uint8Array(4));
    await writeFile(file, bytes);
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    const openNpy = (hash: string | Record<string, string>) =>
      openEmbeddingStore({ npy: { t: file } }, { sha256: hash }).then((store) => store.close());
    await openNpy({ t: sha256 });
    await expect(openNpy({ t: sha256.replace(/^./, "x") })).rejects.toMatchObject({
      code: "invalid_file",
      message: `${file}: table "t" has SHA-256 ${sha256}, expected ${sha256.replace(/^./, "x")}`,
    });
    await expect(openNpy({ u: sha256 })).rejects.toMatchObject({ code: "unknown_table" });
    await expect(openNpy(sha256)).rejects.toMatchObject({ code: "invalid_argument" });
    expect(await refusal(path, { sha256: { colours: sha256 } })).toMatchObject({ code: "invalid_argument" });
  });

  test.each([
    [{ descr: "<f8", bytes: 16 }, "invalid_table", /has dtype "<f8", expected <f4 or <f2/],
    [{ bytes: 4 }, "invalid_file", /of 8 bytes is truncated: the file has 132 bytes/],
    [{ bytes: 12 }, "invalid_file", /of 8 bytes is followed by other data: the file has 140 bytes/],
    [{ shape: "(2,)", bytes: 8 }, "invalid_table", /has shape \[2\], expected \[rows, dim\]/],
  ])("a .npy file of %j, naming file, table and offset", async (npy, code, message) => {
    const { descr = "<f4", shape = "(2, 1)", bytes }: { descr?: string; shape?: string; bytes: number } = npy;
    const file = join(dir, "wrong.npy");
    const dict = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${shape}, }`;
    await writeFile(file, npyBytes(dict, new Uint8Array(bytes)));
    const error = await openEmbeddingStore({ npy: { t: file } }).catch((reason: unknown) => reason as EmbeddingError);
    expect(error).toMatchObject({ code });
    expect((error as EmbeddingError).message).toMatch(message);
    expect((error as EmbeddingError).message).toContain(`${file}: table "t" at offset 128`);
  });

  test("kernels it does not have, and policies that make no sense", async () => {
    expect(await refusal(path, { kernel: "abacus" })).toMatchObject({ code: "invalid_argument" });
    expect(await refusal(path, { outOfVocabulary: { kind: "default-row", row: 2 } })).toMatchObject({
      code: "invalid_argument",
      message: 'default row of table "shapes" is 2, expected 0 … 1',
    });
    expect(await refusal(path, { outOfVocabulary: { tables: { size: { kind: "zero" } } } })).toMatchObject({
      code: "unknown_table",
    });
    expect(await refusal(path, { outOfVocabulary: { kind: "ignore" } })).toMatchObject({ code: "invalid_argument" });
    expect(await refusal(path, { loadConcurrency: 0 })).toMatchObject({ code: "invalid_argument" });
  });
});

function thrown(run: () => unknown): EmbeddingError {
  try {
    run();
  } catch (error) {
    if (error instanceof EmbeddingError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}
