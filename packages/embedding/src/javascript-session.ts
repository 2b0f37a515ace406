import { EmbeddingError } from "./embedding-error.ts";
import { createJavascriptPlan } from "./javascript-kernel.ts";
import type { KernelSession, SharedTable } from "./kernel.ts";
import { loadTables } from "./load-tables.ts";
import type { LoadOptions } from "./load-tables.ts";
import { createReferencePlan } from "./reference-kernel.ts";
import { tableBytesOf } from "./table.ts";
import type { TableInfo, TableSource } from "./table.ts";

/** What another thread needs: one shared buffer a table. */
export interface JavascriptHandle {
  readonly kernel: "javascript" | "reference";
  readonly buffers: readonly SharedArrayBuffer[];
}

/** Loads tables into one SharedArrayBuffer each, for the kernels in plain JavaScript. */
export async function openJavascriptSession(
  kernel: "javascript" | "reference",
  tables: readonly TableSource[],
  options: LoadOptions,
): Promise<KernelSession> {
  const buffers = tables.map((table) => allocate(table));
  await loadTables(
    tables.map((table, at) => ({ table, bytes: new Uint8Array(buffers[at] as SharedArrayBuffer) })),
    options,
  );
  return attachJavascriptSession(tables, { kernel, buffers });
}

/** The same tables in another thread. */
export function attachJavascriptSession(tables: readonly TableInfo[], handle: JavascriptHandle): KernelSession {
  const shared = tables.map((info, at) => ({ info, buffer: handle.buffers[at] as SharedArrayBuffer, byteOffset: 0 }));
  const createPlan = handle.kernel === "reference" ? createReferencePlan : createJavascriptPlan;
  return {
    name: handle.kernel,
    handle,
    createPlan: (layout) => createPlan(layout, shared satisfies SharedTable[]),
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
