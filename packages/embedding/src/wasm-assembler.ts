/** Value types of WebAssembly, by their codes. */
export const I32 = 0x7f;
export const F32 = 0x7d;
export const V128 = 0x7b;
export type ValueType = typeof I32 | typeof F32 | typeof V128;

/** Instructions without immediates, by the names of the specification. */
const PLAIN = {
  "i32.eqz": [0x45],
  "i32.lt_u": [0x49],
  "i32.ge_u": [0x4f],
  "i32.add": [0x6a],
  "i32.sub": [0x6b],
  "i32.mul": [0x6c],
  "i32.and": [0x71],
  "i32.or": [0x72],
  "i32.shl": [0x74],
  "i32.shr_u": [0x76],
  "f32.add": [0x92],
  "f32.mul": [0x94],
  "f32.div": [0x95],
  "f32.convert_i32_u": [0xb3],
  "f32.reinterpret_i32": [0xbe],
  "i32x4.splat": [0xfd, 0x11],
  "f32x4.splat": [0xfd, 0x13],
  "i32x4.eq": [0xfd, 0x37],
  "v128.and": [0xfd, 0x4e],
  "v128.or": [0xfd, 0x50],
  "i16x8.extend_low_i8x16_u": [0xfd, 0x89, 0x01],
  "i32x4.extend_low_i16x8_u": [0xfd, 0xa9, 0x01],
  "i32x4.shl": [0xfd, 0xab, 0x01],
  "f32x4.add": [0xfd, 0xe4, 0x01],
  "f32x4.mul": [0xfd, 0xe6, 0x01],
  "f32x4.div": [0xfd, 0xe7, 0x01],
  "f32x4.convert_i32x4_u": [0xfd, 0xfb, 0x01],
  "f32x4.extract_lane 0": [0xfd, 0x1f, 0],
} as const;

/** Loads and stores. */
const MEMORY = {
  "i32.load": [0x28],
  "f32.load": [0x2a],
  "i32.load8_u": [0x2d],
  "i32.load16_u": [0x2f],
  "f32.store": [0x38],
  "v128.load": [0xfd, 0x00],
  "v128.load16x4_u": [0xfd, 0x04],
  "v128.load32_zero": [0xfd, 0x5c],
  "v128.store": [0xfd, 0x0b],
} as const;

export type PlainInstruction = keyof typeof PLAIN;
export type MemoryInstruction = keyof typeof MEMORY;

/** A variable of a function. */
export interface Local {
  readonly index: number;
  readonly type: ValueType;
}

/** Emits the body of one function. Operands are on the stack, as in the specification. */
export class FunctionBody {
  readonly parameters: readonly ValueType[];
  readonly results: readonly ValueType[];
  readonly code: number[] = [];
  readonly #locals: ValueType[] = [];

  constructor(parameters: readonly ValueType[], results: readonly ValueType[] = []) {
    this.parameters = parameters;
    this.results = results;
  }

  get locals(): readonly ValueType[] {
    return this.#locals;
  }

  parameter(index: number): Local {
    return { index, type: this.parameters[index] as ValueType };
  }

  local(type: ValueType): Local {
    this.#locals.push(type);
    return { index: this.parameters.length + this.#locals.length - 1, type };
  }

  /** Instructions without immediates. */
  op(...names: readonly PlainInstruction[]): this {
    for (const name of names) this.code.push(...PLAIN[name]);
    return this;
  }

  /** A load or store; its address is on the stack. `align` claims nothing. */
  memory(name: MemoryInstruction, memory: number, offset = 0): this {
    // Bit 6 of the alignment: the memory's index follows.
    this.code.push(...MEMORY[name], ...(memory === 0 ? [0] : [0x40, memory]), ...unsigned(offset));
    return this;
  }

  get(local: Local): this {
    this.code.push(0x20, ...unsigned(local.index));
    return this;
  }

  set(local: Local): this {
    this.code.push(0x21, ...unsigned(local.index));
    return this;
  }

  i32(value: number): this {
    this.code.push(0x41, ...signed(value));
    return this;
  }

  f32(value: number): this {
    this.code.push(0x43, ...new Uint8Array(Float32Array.of(value).buffer));
    return this;
  }

  /** Four float32 lanes. */
  f32x4(a: number, b: number, c: number, d: number): this {
    this.code.push(0xfd, 0x0c, ...new Uint8Array(Float32Array.of(a, b, c, d).buffer));
    return this;
  }

  /** Four uint32 lanes. */
  u32x4(a: number, b: number, c: number, d: number): this {
    this.code.push(0xfd, 0x0c, ...new Uint8Array(Uint32Array.of(a, b, c, d).buffer));
    return this;
  }

  call(functionIndex: number): this {
    this.code.push(0x10, ...unsigned(functionIndex));
    return this;
  }

  /** Sets memory bytes: address, value and length are on the stack. */
  fill(memory: number): this {
    this.code.push(0xfc, 0x0b, memory);
    return this;
  }

  /** `if` (and `else`), the condition on the stack. */
  if(then: () => void, otherwise?: () => void): this {
    this.code.push(0x04, 0x40);
    then();
    if (otherwise !== undefined) {
      this.code.push(0x05);
      otherwise();
    }
    this.code.push(0x0b);
    return this;
  }

  /** Repeats `body` while `condition`, which pushes an i32, is not 0. */
  while(condition: () => void, body: () => void): this {
    this.code.push(0x02, 0x40, 0x03, 0x40);
    condition();
    this.op("i32.eqz");
    this.code.push(0x0d, 1);
    body();
    this.code.push(0x0c, 0, 0x0b, 0x0b);
    return this;
  }
}

/** A memory to import from module `m`. */
export interface MemoryImport {
  readonly name: string;
  readonly shared: boolean;
}

/** The bytes of a module that imports memories and exports all of its functions. */
export function assembleModule(
  memories: readonly MemoryImport[],
  functions: readonly { readonly name: string; readonly body: FunctionBody }[],
): Uint8Array<ArrayBuffer> {
  const types = functions.map(({ body }) => [0x60, ...list(body.parameters), ...list(body.results)]);
  const imports = memories.map(({ name, shared }) => [
    ...text("m"),
    ...text(name),
    0x02,
    // A shared memory's most pages must be told: all of 4 GiB.
    ...(shared ? [0x03, 0, ...unsigned(65_536)] : [0x00, 0]),
  ]);
  const exports = functions.map(({ name }, index) => [...text(name), 0x00, ...unsigned(index)]);
  const codes = functions.map(({ body }) => {
    const locals = body.locals.map((type) => [1, type]);
    const bytes = [...unsigned(locals.length), ...locals.flat(), ...body.code, 0x0b];
    return [...unsigned(bytes.length), ...bytes];
  });
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, types),
    ...section(2, imports),
    ...section(
      3,
      functions.map((_, index) => unsigned(index)),
    ),
    ...section(7, exports),
    ...section(10, codes),
  ]);
}

function section(id: number, entries: readonly (readonly number[])[]): number[] {
  const bytes = [...unsigned(entries.length), ...entries.flat()];
  return [id, ...unsigned(bytes.length), ...bytes];
}

function list(bytes: readonly number[]): number[] {
  return [...unsigned(bytes.length), ...bytes];
}

function text(value: string): number[] {
  return list([...new TextEncoder().encode(value)]);
}

/** LEB128 of an integer of 0 … 2^32 - 1. */
export function unsigned(value: number): number[] {
  const bytes: number[] = [];
  let left = value >>> 0;
  do {
    const low = left & 0x7f;
    left >>>= 7;
    bytes.push(left === 0 ? low : low | 0x80);
  } while (left !== 0);
  return bytes;
}

/** LEB128 of an int32. */
export function signed(value: number): number[] {
  const bytes: number[] = [];
  let left = value | 0;
  for (;;) {
    const low = left & 0x7f;
    left >>= 7;
    const isLast = (left === 0 && (low & 0x40) === 0) || (left === -1 && (low & 0x40) !== 0);
    bytes.push(isLast ? low : low | 0x80);
    if (isLast) return bytes;
  }
}
