import { float16ToNumber } from "./float16.ts";
import type { SharedTable } from "./kernel.ts";

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
