import { assert, integer, property } from "fast-check";
import { expect, test } from "vitest";
import { F32, FunctionBody, I32, assembleModule, signed, unsigned } from "./wasm-assembler.ts";
import { requireWebAssembly } from "./webassembly.ts";

test("encodes integers as the specification's examples do", () => {
  expect(unsigned(0)).toEqual([0]);
  expect(unsigned(624_485)).toEqual([0xe5, 0x8e, 0x26]);
  expect(unsigned(2 ** 32 - 1)).toEqual([0xff, 0xff, 0xff, 0xff, 0x0f]);
  expect(signed(-123_456)).toEqual([0xc0, 0xbb, 0x78]);
  expect(signed(63)).toEqual([63]);
  expect(signed(64)).toEqual([0xc0, 0]);
  expect(signed(-64)).toEqual([0x40]);
});

/** Runs a function that only gives a constant. */
function constantOf(emit: (f: FunctionBody) => void, type: typeof I32 | typeof F32): unknown {
  const body = new FunctionBody([], [type]);
  emit(body);
  const { Module, Instance } = requireWebAssembly();
  const { exports } = new Instance(new Module(assembleModule([], [{ name: "f", body }])), {});
  return (exports["f"] as () => unknown)();
}

test("makes modules whose constants come back", () => {
  assert(
    property(integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), (value) => constantOf((f) => f.i32(value), I32) === value),
    { seed: 1 },
  );
  expect(constantOf((f) => f.f32(-0), F32)).toBe(-0);
});
