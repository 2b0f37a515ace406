import { EmbeddingError } from "./embedding-error.ts";
import type { KernelSession, SharedTable } from "./kernel.ts";
import { loadTables } from "./load-tables.ts";
import type { LoadOptions } from "./load-tables.ts";
import { createReferencePlan } from "./reference-kernel.ts";
import { tableBytesOf } from "./table.ts";
import type { TableInfo, TableSource } from "./table.ts";
import { UpdateGate } from "./update-gate.ts";

/** What another thread needs: one shared buffer a table, and the gate of updates. */
export interface ReferenceHandle {
  readonly buffers: readonly SharedArrayBuffer[];
  readonly gate: SharedArrayBuffer;
}

/** Loads tables into one SharedArrayBuffer each, for the reference kernel. */
export async function openReferenceSession(
  tables: readonly TableSource[],
  options: LoadOptions,
): Promise<KernelSession> {
  const buffers = tables.map((table) => allocate(table));
  await loadTables(
    tables.map((table, at) => ({ table, firstByte: 0, bytes: new Uint8Array(buffers[at] as SharedArrayBuffer) })),
    options,
  );
  return attachReferenceSession(tables, { buffers, gate: new UpdateGate().buffer });
}

/** The same tables in another thread. */
export function attachReferenceSession(tables: readonly TableInfo[], handle: ReferenceHandle): KernelSession {
  const shared = tables.map((info, at) => ({ info, buffer: handle.buffers[at] as SharedArrayBuffer, byteOffset: 0 }));
  const gate = new UpdateGate(handle.gate);
  return {
    name: "reference",
    handle,
    createPlan: (layout) => gate.guard(createReferencePlan(layout, shared satisfies SharedTable[])),
    update: (updates) =>
      gate.update(() => {
        for (const { table, firstRow, bytes } of updates) {
          const { info, buffer } = shared[table] as SharedTable;
          new Uint8Array(buffer).set(bytes, firstRow * info.rowBytes);
        }
      }),
    close: () => {},
  };
}

function allocate(table: TableInfo): SharedArrayBuffer {
  try {
    return new SharedArrayBuffer(tableBytesOf(table));
  } catch (error) {
    throw EmbeddingError.from(
      error,
      "io",
      `cannot allocate ${tableBytesOf(table)} bytes for table ${JSON.stringify(table.name)}`,
    );
  }
}
