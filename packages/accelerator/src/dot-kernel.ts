/** Floats in the unit the kernel works in; rows are padded with zeros to a multiple of it. */
const UNIT_FLOATS = 16;
/** Rows copied at a time: enough to hide the call, and small enough to still be in the cache when they are read. */
const CHUNK_BYTES = 128 * 1024;
const PAGE_BYTES = 65_536;

/** What is used of the global, which neither the ECMAScript library nor Node's types declare. */
declare const WebAssembly: {
  readonly Memory: new (descriptor: { initial: number }) => { readonly buffer: ArrayBuffer };
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: Readonly<Record<string, unknown>> };
};

type Dot = (x: number, v: number, out: number, rows: number, strideBytes: number) => void;

/**
 * out[r] = Σ x[r][i] · v[i], for a v that is fixed: WebAssembly SIMD, 4 accumulators of 4 float32 lanes. Five times what
 * a loop in JavaScript does, which would be slower than the accelerator that is simulated. Rows are copied into the
 * kernel's own memory, because it can read no other; that is half of the time.
 */
export class DotKernel {
  readonly #width: number;
  readonly #stride: number;
  readonly #chunkRows: number;
  readonly #x: Float32Array;
  readonly #xBytes: Buffer;
  readonly #out: Float32Array;
  readonly #dot: Dot;

  constructor(v: Float32Array) {
    this.#width = v.length;
    this.#stride = Math.ceil(v.length / UNIT_FLOATS) * UNIT_FLOATS;
    this.#chunkRows = Math.max(1, Math.floor(CHUNK_BYTES / (4 * this.#stride)));
    // v, then x, then out: each starts at a multiple of 64 bytes.
    const bytes = 4 * (this.#stride + this.#chunkRows * this.#stride + this.#chunkRows);
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) });
    new Float32Array(memory.buffer).set(v);
    this.#x = new Float32Array(memory.buffer, 4 * this.#stride, this.#chunkRows * this.#stride);
    this.#xBytes = Buffer.from(memory.buffer, this.#x.byteOffset, this.#x.byteLength);
    this.#out = new Float32Array(memory.buffer, this.#x.byteOffset + this.#x.byteLength, this.#chunkRows);
    const instance = new WebAssembly.Instance(new WebAssembly.Module(DOT_MODULE), { env: { memory } });
    this.#dot = instance.exports["dot"] as Dot;
  }

  /** Reads the first out.length rows of x, the bytes of a float32 array [≥ out.length, v.length], row-major. */
  run(x: Buffer, out: Float32Array): void {
    for (let row = 0; row < out.length; row += this.#chunkRows) {
      const rows = Math.min(this.#chunkRows, out.length - row);
      this.#copyIn(x, row, rows);
      this.#dot(this.#x.byteOffset, 0, this.#out.byteOffset, rows, 4 * this.#stride);
      out.set(rows === this.#chunkRows ? this.#out : this.#out.subarray(0, rows), row);
    }
  }

  // Buffer's copy, because it is a plain memmove: TypedArray's set goes through shared memory word by word, three times as long.
  #copyIn(x: Buffer, row: number, rows: number): void {
    const width = this.#width;
    if (width === this.#stride) {
      x.copy(this.#xBytes, 0, 4 * row * width, 4 * (row + rows) * width);
      return;
    }
    for (let i = 0; i < rows; i++) {
      x.copy(this.#xBytes, 4 * i * this.#stride, 4 * (row + i) * width, 4 * (row + i + 1) * width);
    }
  }
}

// Locals of the function below.
const X = 0;
const V = 1;
const OUT = 2;
const ROWS = 3;
const STRIDE = 4;
const END = 5;
const VP = 6;
const SUM = [7, 8, 9, 10] as const;

const get = (local: number): number[] => [0x20, local];
const set = (local: number): number[] => [0x21, local];
const constant = (value: number): number[] => [0x41, ...(value < 64 ? [value] : [(value & 0x7f) | 0x80, value >> 7])];
const add = [0x6a];
const load128 = (offset: number): number[] => [0xfd, 0x00, 4, offset];
const addLanes = [0xfd, 0xe4, 0x01];
const mulLanes = [0xfd, 0xe6, 0x01];
const zeroLanes = [0xfd, 0x0c, ...Array.from({ length: 16 }, () => 0)];
const addFloats = [0x92];
const loop = [0x03, 0x40];
const end = [0x0b];
const repeatIf = [0x0d, 0];

const addTo = (sum: number, offset: number): number[] =>
  [get(sum), get(X), load128(offset), get(VP), load128(offset), mulLanes, addLanes, set(sum)].flat();
const lane = (index: number): number[] => [get(SUM[0]), [0xfd, 0x1f, index]].flat();
const advance = (local: number, bytes: number): number[] => [get(local), constant(bytes), add, set(local)].flat();

/** func dot(x: i32, v: i32, out: i32, rows: i32, stride: i32), all in bytes but rows, which is at least 1. */
const body: number[] = [
  [2, 2, 0x7f, 4, 0x7b], // locals: 2 × i32, 4 × v128
  loop, // over rows
  ...SUM.map((sum) => [zeroLanes, set(sum)].flat()),
  [get(V), set(VP)].flat(),
  [get(X), get(STRIDE), add, set(END)].flat(),
  loop, // over units
  ...SUM.map((sum, i) => addTo(sum, 16 * i)),
  advance(VP, 64),
  advance(X, 64),
  [get(X), get(END), [0x49], repeatIf].flat(), // x < end
  end,
  [get(SUM[0]), get(SUM[1]), addLanes, get(SUM[2]), get(SUM[3]), addLanes, addLanes, set(SUM[0])].flat(),
  [get(OUT), lane(0), lane(1), addFloats, lane(2), lane(3), addFloats, addFloats, [0x38, 2, 0]].flat(), // store
  advance(OUT, 4),
  [get(ROWS), constant(1), [0x6b], [0x22, ROWS], repeatIf].flat(), // --rows
  end,
  end,
].flat();

const leb = (value: number): number[] => (value < 128 ? [value] : [(value & 0x7f) | 0x80, ...leb(value >> 7)]);
const sized = (bytes: readonly number[]): number[] => [...leb(bytes.length), ...bytes];
const text = (value: string): number[] => sized([...Buffer.from(value)]);
const section = (id: number, content: readonly number[]): number[] => [id, ...sized(content)];

const DOT_MODULE = Uint8Array.from(
  [
    [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    section(1, [1, 0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0]), // type: 5 × i32 → nothing
    section(2, [1, ...text("env"), ...text("memory"), 0x02, 0x00, 1]), // import the memory, at least 1 page
    section(3, [1, 0]), // one function, of that type
    section(7, [1, ...text("dot"), 0x00, 0]), // export it
    section(10, [1, ...sized(body)]),
  ].flat(),
);
