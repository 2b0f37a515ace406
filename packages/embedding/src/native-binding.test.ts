import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { anything, assert, constantFrom, integer, oneof, property, tuple } from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PLATFORMS, loadNativeBinding, platformName, tryInOrder } from "./native-binding.ts";
import type { NativeLoader, NativeTable } from "./native-binding.ts";

let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "native-binding-"));
});
afterAll(() => rm(dir, { recursive: true }));

test("the reason why each place holds no library is kept, in the order tried", async () => {
  const absent = join(dir, "absent.node");
  const broken = join(dir, "broken.node");
  await writeFile(broken, "not a library");
  const old = join(dir, "old.cjs");
  await writeFile(old, "exports.BINDING_VERSION = 0;");
  const result = tryInOrder([absent, broken, old]);
  expect(result).toMatchObject({ causes: [{ code: "MODULE_NOT_FOUND" }, { code: "ERR_DLOPEN_FAILED" }, {}] });
  const { whyNot } = result as { whyNot: string };
  expect(whyNot).toContain(`${absent}: not there; ${broken}: `);
  expect(whyNot).toContain(`${old}: version 0 of the binding, expected 4`);
});

test("the first library of the right version is taken", async () => {
  const good = join(dir, "good.cjs");
  await writeFile(good, "exports.BINDING_VERSION = 4;");
  expect(tryInOrder([join(dir, "absent"), good])).toEqual({ binding: { BINDING_VERSION: 4 } });
});

test("the platform is named as its package is", () => {
  expect(Object.keys(PLATFORMS)).toContain(platformName());
});

const native = loadNativeBinding();

describe.runIf("binding" in native)("the library, whatever it is called with,", () => {
  /** A loader of one table. */
  function loaderOf(tables: readonly NativeTable[], mapFiles = false): NativeLoader {
    if (!("binding" in native)) throw new Error(native.whyNot);
    return new native.binding.Loader(tables, mapFiles, false);
  }
  const table: NativeTable = {
    name: "t",
    rows: 3,
    dim: 2,
    dtype: "float32",
    policy: "error",
    defaultRow: 0,
    offset: 0,
  };

  /** A result, or an error that JavaScript can catch: anything but the end of the process. */
  function survives(call: () => unknown): boolean {
    try {
      call();
      return true;
    } catch (error) {
      return error instanceof Error;
    }
  }

  /** Arrays of every kind and place, numbers of every kind, and everything else. */
  const arrays = oneof(
    integer({ min: 0, max: 8 }).map((length) => new Int32Array(new SharedArrayBuffer(length * 4))),
    integer({ min: 0, max: 8 }).map((length) => new Float32Array(length)),
    integer({ min: 0, max: 8 }).map((length) => new Float32Array(new SharedArrayBuffer(length * 4))),
    integer({ min: 0, max: 8 }).map((length) => new Uint32Array(length).fill(length)),
    integer({ min: 0, max: 8 }).map((length) => new Uint8Array(length)),
    constantFrom(new Float64Array(3), new DataView(new ArrayBuffer(8)), new ArrayBuffer(8)),
    anything(),
  );
  const numbers = oneof(
    integer({ min: -2, max: 4 }),
    integer(),
    constantFrom(2 ** 31, 2 ** 32 - 1, 2 ** 53, -1.5, Number.NaN),
    anything(),
  );

  test("answers or throws, for sessions and plans", () => {
    const loader = loaderOf([table]);
    const session = loader.finish() as unknown as Record<string, (...args: unknown[]) => unknown>;
    const plan = (session["createPlan"] as (features: Uint32Array) => unknown).call(
      session,
      Uint32Array.of(0, 2, 0),
    ) as Record<string, (...args: unknown[]) => unknown>;
    const isSurvived = ([a, b, c, d, e]: unknown[]): boolean =>
      [
        () => session["registerArray"]?.(a),
        () => plan["gather"]?.(a, c, a, b, c, d),
        () => plan["gather"]?.(a, null, c, b, a, d),
        () => plan["gatherRegistered"]?.(b, d, e, b),
        () => plan["gather"]?.(a, c, null, b, c, d),
        () => plan["gather"]?.(a, null, null, b, c, d),
        () => plan["findOutOfVocabulary"]?.(a, b),
        () => session["update"]?.(a, [c]),
        () => session["update"]?.(a, c),
        () => session["createPlan"]?.(a),
        () => session["releaseArray"]?.(b),
        () => session["setPrefetchDistance"]?.(b),
        () => "binding" in native && native.binding.attach(b as number),
      ].every((call) => survives(call));
    assert(property(tuple(arrays, numbers, arrays, numbers, numbers), isSurvived), { seed: 1, numRuns: 1000 });
  });

  test("answers or throws, for loaders", () => {
    const isSurvived = ([rows, dim, value, bytes]: unknown[]): boolean =>
      [
        () => loaderOf([{ ...table, rows, dim } as NativeTable]),
        () => loaderOf([{ ...table, dtype: value } as NativeTable]),
        () => loaderOf([{ ...table, path: value, offset: rows } as NativeTable], true),
        () => loaderOf(value as NativeTable[]),
        () => loaderOf([table]).write(rows as number, dim as number, bytes as Uint8Array),
      ].every((call) => survives(call));
    const sizes = oneof(integer({ min: -3, max: 100 }), constantFrom(2 ** 31, 2 ** 32, Number.NaN), anything());
    assert(property(tuple(sizes, sizes, anything(), arrays), isSurvived), { seed: 1, numRuns: 300 });
  });

  test("refuses to remember arrays whose memory can be taken away", () => {
    const session = loaderOf([table]).finish();
    expect(session.registerArray(new Int32Array(4))).toBe(-1);
    expect(session.registerArray(new Int32Array(new SharedArrayBuffer(16)))).toBe(0);
    expect(session.registerArray(new Float32Array(new SharedArrayBuffer(16)))).toBe(1);
    session.releaseArray(0);
    session.releaseArray(0);
    expect(session.registerArray(new Int32Array(new SharedArrayBuffer(16)))).toBe(0);
    expect(session.registerArray(new Int32Array(new SharedArrayBuffer(16)))).toBe(2);
    const plan = session.createPlan(Uint32Array.of(0, 1, 0));
    expect(plan.gatherRegistered(1, 1, 0, 0)).toBe(-3);
    expect(plan.gatherRegistered(0, 1, 7, 0)).toBe(-3);
    expect(plan.gatherRegistered(0, 1, 1, 0)).toBe(-1);
    expect(plan.gatherRegistered(0, 1, 1, 2)).toBe(-4);
    session.close();
    expect(plan.gatherRegistered(0, 1, 1, 0)).toBe(-2);
    expect(session.id).toBe(0);
  });

  test("takes an array whose buffer was taken away for an empty one", () => {
    const plan = loaderOf([table])
      .finish()
      .createPlan(Uint32Array.of(0, 1, 0));
    const ids = new Int32Array(4);
    structuredClone(ids, { transfer: [ids.buffer] });
    expect(plan.gather(ids, null, null, 1, new Float32Array(2), 0)).toBe(-4);
  });
});
