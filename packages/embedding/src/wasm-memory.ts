import { tableBytesOf } from "./table.ts";
import type { TableInfo } from "./table.ts";
import { requireWebAssembly } from "./webassembly.ts";
import type { WasmMemory } from "./webassembly.ts";

/** Consecutive rows of a table, in one memory. */
export interface WasmPart {
  readonly memory: number;
  readonly byteOffset: number;
  readonly firstRow: number;
  readonly rows: number;
}

/** Which rows are where. */
export interface WasmPlacement {
  /** Bytes each memory needs. */
  readonly memoryBytes: readonly number[];
  /** The parts of each table, in the order of rows. */
  readonly tables: readonly (readonly WasmPart[])[];
}

/** A page of WebAssembly memory. */
export const PAGE_BYTES = 65_536;

/** Addresses are 32 bits; the last page is left out so that the end of a memory is one too. */
export const MAX_MEMORY_BYTES: number = 65_535 * PAGE_BYTES;

const CACHE_LINE_BYTES = 64;

/** Puts tables into as few memories as hold them; a table larger than a memory is split between rows. */
export function placeTables(tables: readonly TableInfo[], maxMemoryBytes: number = MAX_MEMORY_BYTES): WasmPlacement {
  const memoryBytes: number[] = [];

  /** A place of `bytes` in the first memory with room. */
  function place(bytes: number): { memory: number; byteOffset: number } {
    let memory = memoryBytes.findIndex((used) => used + bytes <= maxMemoryBytes);
    if (memory < 0) memory = memoryBytes.push(0) - 1;
    const byteOffset = memoryBytes[memory] ?? 0;
    memoryBytes[memory] = Math.ceil((byteOffset + bytes) / CACHE_LINE_BYTES) * CACHE_LINE_BYTES;
    return { memory, byteOffset };
  }

  const parts = tables.map((table) => {
    if (tableBytesOf(table) <= maxMemoryBytes) {
      return [{ ...place(tableBytesOf(table)), firstRow: 0, rows: table.rows }];
    }
    const most = Math.floor(maxMemoryBytes / table.rowBytes);
    return Array.from({ length: Math.ceil(table.rows / most) }, (_, at): WasmPart => {
      const firstRow = at * most;
      const rows = Math.min(most, table.rows - firstRow);
      return { ...place(rows * table.rowBytes), firstRow, rows };
    });
  });
  return { memoryBytes, tables: parts };
}

/** Shared memories for a placement. */
export function allocateMemories(placement: WasmPlacement): readonly WasmMemory[] {
  return placement.memoryBytes.map((bytes) => {
    const pages = Math.max(1, Math.ceil(bytes / PAGE_BYTES));
    return new (requireWebAssembly().Memory)({ initial: pages, maximum: pages, shared: true });
  });
}
