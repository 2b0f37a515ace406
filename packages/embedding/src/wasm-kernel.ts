import type { TableDtype } from "./table.ts";
import { F32, FunctionBody, I32, V128, assembleModule } from "./wasm-assembler.ts";
import type { Local } from "./wasm-assembler.ts";
import { requireWebAssembly } from "./webassembly.ts";
import type { WasmMemory, WasmModule } from "./webassembly.ts";

/**
 * Pools consecutive bags: the addresses of their rows, where each ends (counted in rows), and where pooled vectors go. `weights` is the
 * address of the rows' weights, which the unweighted functions do not look at.
 */
type PoolBags = (
  addresses: number,
  ends: number,
  bags: number,
  output: number,
  strideBytes: number,
  dim: number,
  mean: number,
  weights: number,
) => void;

/** Adds `count` rows to a vector (or starts it, if `first`), their biases to `shift`, and gives that. */
type AddRows = (
  addresses: number,
  count: number,
  output: number,
  dim: number,
  first: number,
  shift: number,
  weights: number,
) => number;

/** What an instance over one memory of tables does. Addresses of rows are of that memory, all else of the scratch memory. */
export interface WasmKernel {
  readonly bags: Readonly<Record<TableDtype, PoolBags>>;
  readonly weightedBags: Readonly<Record<TableDtype, PoolBags>>;
  readonly add: Readonly<Record<TableDtype, AddRows>>;
  readonly weightedAdd: Readonly<Record<TableDtype, AddRows>>;
  /** Adds `shift` to a vector and divides it. */
  readonly finish: (output: number, dim: number, shift: number, divisor: number) => void;
}

/** The memory that holds rows, and the one that holds a thread's addresses and pooled vectors. */
const TABLES = 0;
const SCRATCH = 1;

/** How many rows are added in one pass over the pooled vector, most first. */
const GROUPS = [4, 2, 1] as const;

/** How elements of a dtype are read. */
interface Format {
  /** Bits of an element. */
  readonly bits: 4 | 8 | 16 | 32;
  readonly quantized: boolean;
  /** Turns an address on the stack into the four elements `offset` bytes after it. */
  vector(f: FunctionBody, offset: number, spare: Local): void;
  /** Pushes element `column` (a local) of those that start at `row`. */
  scalar(f: FunctionBody, row: Local, column: Local, spare: Local): void;
  /** Turns the address after a row's codes, on the stack, into its scale (0) or bias (1). */
  constant?(f: FunctionBody, which: 0 | 1, spare: Local): void;
}

/**
 * A float16 in the low half of each lane on the stack, as float32. Exponent and fraction are shifted to their places, and the exponent's
 * different bias is made up for by a product, which is exact, for subnormals too; infinities and NaN get the largest exponent.
 */
function widenFloat16(f: FunctionBody, spare: Local): void {
  const all = (bits: number) => f.u32x4(bits, bits, bits, bits);
  const scale = 2 ** 112;
  f.set(spare).get(spare);
  all(0x7fff).op("v128.and").i32(13).op("i32x4.shl").f32x4(scale, scale, scale, scale).op("f32x4.mul").get(spare);
  all(0x8000).op("v128.and").i32(16).op("i32x4.shl", "v128.or").get(spare);
  all(0x7c00).op("v128.and");
  all(0x7c00).op("i32x4.eq");
  all(0x7f80_0000).op("v128.and", "v128.or");
}

function pushElementAddress(f: FunctionBody, row: Local, column: Local, shift: number): void {
  f.get(row).get(column).i32(shift).op("i32.shl", "i32.add");
}

const FORMATS: Readonly<Record<TableDtype, Format>> = {
  float32: {
    bits: 32,
    quantized: false,
    vector: (f, offset) => f.memory("v128.load", TABLES, offset),
    scalar(f, row, column) {
      pushElementAddress(f, row, column, 2);
      f.memory("f32.load", TABLES);
    },
  },
  float16: {
    bits: 16,
    quantized: false,
    vector(f, offset, spare) {
      widenFloat16(f.memory("v128.load16x4_u", TABLES, offset), spare);
    },
    scalar(f, row, column, spare) {
      pushElementAddress(f, row, column, 1);
      widenFloat16(f.memory("i32.load16_u", TABLES).op("i32x4.splat"), spare);
      f.op("f32x4.extract_lane 0");
    },
  },
  bfloat16: {
    bits: 16,
    quantized: false,
    vector: (f, offset) => f.memory("v128.load16x4_u", TABLES, offset).i32(16).op("i32x4.shl"),
    scalar(f, row, column) {
      pushElementAddress(f, row, column, 1);
      f.memory("i32.load16_u", TABLES).i32(16).op("i32.shl", "f32.reinterpret_i32");
    },
  },
  int8: {
    bits: 8,
    quantized: true,
    vector(f, offset) {
      f.memory("v128.load32_zero", TABLES, offset);
      f.op("i16x8.extend_low_i8x16_u", "i32x4.extend_low_i16x8_u", "f32x4.convert_i32x4_u");
    },
    scalar(f, row, column) {
      f.get(row).get(column).op("i32.add").memory("i32.load8_u", TABLES).op("f32.convert_i32_u");
    },
    constant: (f, which) => f.memory("f32.load", TABLES, which * 4),
  },
  int4: {
    bits: 4,
    quantized: true,
    vector(f, offset) {
      // The four codes are masked where they are, and so come out 1, 16, 256 and 4096 times too large.
      f.memory("i32.load16_u", TABLES, offset).op("i32x4.splat");
      f.u32x4(0xf, 0xf0, 0xf00, 0xf000).op("v128.and", "f32x4.convert_i32x4_u");
      f.f32x4(1, 1 / 16, 1 / 256, 1 / 4096).op("f32x4.mul");
    },
    scalar(f, row, column) {
      f.get(row).get(column).i32(1).op("i32.shr_u", "i32.add").memory("i32.load8_u", TABLES);
      f.get(column).i32(1).op("i32.and").i32(2).op("i32.shl", "i32.shr_u").i32(0xf).op("i32.and", "f32.convert_i32_u");
    },
    constant(f, which, spare) {
      widenFloat16(f.memory("i32.load16_u", TABLES, which * 2).op("i32x4.splat"), spare);
      f.op("f32x4.extract_lane 0");
    },
  },
};

const DTYPES = Object.keys(FORMATS) as readonly TableDtype[];

/** `add` of one dtype. */
function emitAdd(format: Format, weighted: boolean): FunctionBody {
  const f = new FunctionBody([I32, I32, I32, I32, I32, F32, I32], [F32]);
  const [addresses, count, output, dim, first, shift, weights] = [0, 1, 2, 3, 4, 5, 6].map((at) => f.parameter(at)) as [
    Local,
    Local,
    Local,
    Local,
    Local,
    Local,
    Local,
  ];
  const spare = f.local(V128);
  const to = f.local(I32);
  const left = f.local(I32);
  const column = f.local(I32);
  const rows = GROUPS.map(() => f.local(I32)).concat(f.local(I32));
  const scales = rows.map(() => f.local(F32));
  const wideScales = rows.map(() => f.local(V128));
  /** Whether elements are multiplied by a scale, a weight or the product of both. */
  const isScaled = format.quantized || weighted;

  /** Columns `4 * vector … + 3` of all rows of the group. */
  function emitVector(size: number, isFirst: boolean, vector: number): void {
    f.get(to);
    if (!isFirst) f.get(to).memory("v128.load", SCRATCH, vector * 16);
    for (let j = 0; j < size; j++) {
      f.get(rows[j] as Local);
      format.vector(f, (vector * 4 * format.bits) / 8, spare);
      if (isScaled) f.get(wideScales[j] as Local).op("f32x4.mul");
      if (j > 0 || !isFirst) f.op("f32x4.add");
    }
    f.memory("v128.store", SCRATCH, vector * 16);
  }

  function emitScalar(size: number, isFirst: boolean): void {
    pushElementAddress(f, to, column, 2);
    if (!isFirst) {
      pushElementAddress(f, to, column, 2);
      f.memory("f32.load", SCRATCH);
    }
    for (let j = 0; j < size; j++) {
      format.scalar(f, rows[j] as Local, column, spare);
      if (isScaled) f.get(scales[j] as Local).op("f32.mul");
      if (j > 0 || !isFirst) f.op("f32.add");
    }
    f.memory("f32.store", SCRATCH);
  }

  function emitColumns(size: number, isFirst: boolean): void {
    for (const vectors of [4, 1]) {
      const atLeast = () =>
        f
          .i32(vectors * 4 - 1)
          .get(left)
          .op("i32.lt_u");
      f.while(atLeast, () => {
        for (let vector = 0; vector < vectors; vector++) emitVector(size, isFirst, vector);
        for (const row of rows.slice(0, size)) {
          f.get(row)
            .i32((vectors * 4 * format.bits) / 8)
            .op("i32.add")
            .set(row);
        }
        f.get(to)
          .i32(vectors * 16)
          .op("i32.add")
          .set(to);
        f.get(left)
          .i32(vectors * 4)
          .op("i32.sub")
          .set(left);
      });
    }
    f.i32(0).set(column);
    f.while(
      () => f.get(column).get(left).op("i32.lt_u"),
      () => {
        emitScalar(size, isFirst);
        f.get(column).i32(1).op("i32.add").set(column);
      },
    );
  }

  function emitGroup(size: number): void {
    for (let j = 0; j < size; j++)
      f.get(addresses)
        .memory("i32.load", SCRATCH, j * 4)
        .set(rows[j] as Local);
    for (let j = 0; j < (isScaled ? size : 0); j++) {
      const scale = scales[j] as Local;
      const pushWeight = () => f.get(weights).memory("f32.load", SCRATCH, j * 4);
      if (format.constant === undefined) {
        pushWeight().set(scale);
      } else {
        const pushEnd = () => {
          f.get(rows[j] as Local).get(dim);
          if (format.bits === 4) f.i32(1).op("i32.add").i32(1).op("i32.shr_u");
          return f.op("i32.add");
        };
        format.constant(pushEnd(), 0, spare);
        if (weighted) pushWeight().op("f32.mul");
        f.set(scale).get(shift);
        format.constant(pushEnd(), 1, spare);
        if (weighted) pushWeight().op("f32.mul");
        f.op("f32.add").set(shift);
      }
      f.get(scale)
        .op("f32x4.splat")
        .set(wideScales[j] as Local);
    }
    f.get(output).set(to).get(dim).set(left);
    f.get(first).if(
      () => emitColumns(size, true),
      () => emitColumns(size, false),
    );
    f.i32(0).set(first);
    f.get(addresses)
      .i32(size * 4)
      .op("i32.add")
      .set(addresses);
    f.get(count).i32(size).op("i32.sub").set(count);
    if (weighted) {
      f.get(weights)
        .i32(size * 4)
        .op("i32.add")
        .set(weights);
    }
  }

  for (const size of GROUPS) {
    f.while(
      () =>
        f
          .i32(size - 1)
          .get(count)
          .op("i32.lt_u"),
      () => emitGroup(size),
    );
  }
  f.get(shift);
  return f;
}

/** `finish`. */
function emitFinish(): FunctionBody {
  const f = new FunctionBody([I32, I32, F32, F32]);
  const [output, dim, shift, divisor] = [0, 1, 2, 3].map((at) => f.parameter(at)) as [Local, Local, Local, Local];
  const end = f.local(I32);
  f.get(output).get(dim).i32(2).op("i32.shl", "i32.add").set(end);
  f.while(
    () => f.get(output).i32(12).op("i32.add").get(end).op("i32.lt_u"),
    () => {
      f.get(output).get(output).memory("v128.load", SCRATCH).get(shift).op("f32x4.splat", "f32x4.add");
      f.get(divisor).op("f32x4.splat", "f32x4.div").memory("v128.store", SCRATCH);
      f.get(output).i32(16).op("i32.add").set(output);
    },
  );
  f.while(
    () => f.get(output).get(end).op("i32.lt_u"),
    () => {
      f.get(output).get(output).memory("f32.load", SCRATCH).get(shift).op("f32.add");
      f.get(divisor).op("f32.div").memory("f32.store", SCRATCH);
      f.get(output).i32(4).op("i32.add").set(output);
    },
  );
  return f;
}

/** `bags` of one dtype, over the functions `add` and `finish`. */
function emitBags(format: Format, add: number, finish: number): FunctionBody {
  const f = new FunctionBody([I32, I32, I32, I32, I32, I32, I32, I32]);
  const [addresses, ends, bags, output, stride, dim, mean, weights] = [0, 1, 2, 3, 4, 5, 6, 7].map((at) =>
    f.parameter(at),
  ) as [Local, Local, Local, Local, Local, Local, Local, Local];
  const start = f.local(I32);
  const count = f.local(I32);
  const divisor = f.local(F32);
  const shift = f.local(F32);
  f.while(
    () => f.get(bags),
    () => {
      f.get(ends).memory("i32.load", SCRATCH).get(start).op("i32.sub").set(count);
      f.get(count).if(
        () => {
          f.get(addresses).get(start).i32(2).op("i32.shl", "i32.add").get(count).get(output).get(dim).i32(1);
          // -0 changes nothing that is added to it, whatever its sign.
          f.f32(-0).get(weights).get(start).i32(2).op("i32.shl", "i32.add").call(add).set(shift);
          f.f32(1).set(divisor);
          f.get(mean).if(() => f.get(count).op("f32.convert_i32_u").set(divisor));
          const callFinish = () => f.get(output).get(dim).get(shift).get(divisor).call(finish);
          if (format.quantized) callFinish();
          else f.get(mean).if(callFinish);
        },
        () => f.get(output).i32(0).get(dim).i32(2).op("i32.shl").fill(SCRATCH),
      );
      f.get(start).get(count).op("i32.add").set(start);
      f.get(ends).i32(4).op("i32.add").set(ends);
      f.get(output).get(stride).op("i32.add").set(output);
      f.get(bags).i32(1).op("i32.sub").set(bags);
    },
  );
  return f;
}

let compiled: WasmModule | undefined;

/** The kernel's module; the same for all memories. */
export function wasmModule(): WasmModule {
  compiled ??= new (requireWebAssembly().Module)(wasmBytes());
  return compiled;
}

/** The bytes of the module. */
export function wasmBytes(): Uint8Array<ArrayBuffer> {
  const variants = [false, true].flatMap((weighted) => DTYPES.map((dtype) => ({ weighted, dtype })));
  const adds = variants.map(({ weighted, dtype }) => ({
    name: nameOf("add", weighted, dtype),
    body: emitAdd(FORMATS[dtype], weighted),
  }));
  const finish = adds.length;
  const bags = variants.map(({ weighted, dtype }, at) => ({
    name: nameOf("bags", weighted, dtype),
    body: emitBags(FORMATS[dtype], at, finish),
  }));
  const memories = [
    { name: "tables", shared: true },
    { name: "scratch", shared: false },
  ];
  return assembleModule(memories, [...adds, { name: "finish", body: emitFinish() }, ...bags]);
}

function nameOf(what: "add" | "bags", weighted: boolean, dtype: TableDtype): string {
  return `${what}_${weighted ? "weighted_" : ""}${dtype}`;
}

/** The kernel over one memory of tables. */
export function instantiateKernel(tables: WasmMemory, scratch: WasmMemory): WasmKernel {
  const { exports } = new (requireWebAssembly().Instance)(wasmModule(), { m: { tables, scratch } });
  const functionsOf = (what: "add" | "bags", weighted: boolean) =>
    Object.fromEntries(DTYPES.map((dtype) => [dtype, exports[nameOf(what, weighted, dtype)]]));
  return {
    bags: functionsOf("bags", false) as WasmKernel["bags"],
    weightedBags: functionsOf("bags", true) as WasmKernel["bags"],
    add: functionsOf("add", false) as WasmKernel["add"],
    weightedAdd: functionsOf("add", true) as WasmKernel["add"],
    finish: exports["finish"] as WasmKernel["finish"],
  };
}
