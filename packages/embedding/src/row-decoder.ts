import type { SharedTable } from "./kernel.ts";

/** Value of a float16, by its bits. */
export function float16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A row, taken apart: element `d` has the value `scale * codes[d] + bias`, or just `codes[d]` where there is no scale. */
export interface DecodedRow {
  readonly codes: readonly number[];
  readonly scale: number | undefined;
  readonly bias: number;
}

/** Reads one row, of any dtype, in the plainest way. */
export function decodeRow(table: SharedTable, row: number): DecodedRow {
  const { dim, dtype, rowBytes } = table.info;
  const view = new DataView(table.buffer, table.byteOffset + row * rowBytes, rowBytes);
  const elements = Array.from({ length: dim }, (_, d) => d);
  switch (dtype) {
    case "float32":
      return { codes: elements.map((d) => view.getFloat32(d * 4, true)), scale: undefined, bias: 0 };
    case "float16":
      return { codes: elements.map((d) => float16ToNumber(view.getUint16(d * 2, true))), scale: undefined, bias: 0 };
    case "bfloat16": {
      const word = new DataView(new ArrayBuffer(4));
      const widen = (bits: number) => {
        word.setUint16(2, bits, true);
        return word.getFloat32(0, true);
      };
      return { codes: elements.map((d) => widen(view.getUint16(d * 2, true))), scale: undefined, bias: 0 };
    }
    case "int8":
      return {
        codes: elements.map((d) => view.getUint8(d)),
        scale: view.getFloat32(dim, true),
        bias: view.getFloat32(dim + 4, true),
      };
    default: {
      dtype satisfies "int4";
      const codeBytes = rowBytes - 4;
      return {
        codes: elements.map((d) => (view.getUint8(d >> 1) >> (d % 2 === 0 ? 0 : 4)) & 0xf),
        scale: float16ToNumber(view.getUint16(codeBytes, true)),
        bias: float16ToNumber(view.getUint16(codeBytes + 2, true)),
      };
    }
  }
}
