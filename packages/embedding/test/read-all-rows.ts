import type { EmbeddingStore } from "../src/index.ts";

const AT_ONCE = 64;

/** Gathers every row of a table whose number of rows is a multiple of 64. */
export function readAllRows(store: EmbeddingStore, table: string): void {
  const rows = store.tables.find(({ name }) => name === table)?.rows ?? 0;
  const plan = store.plan([{ table, hotSize: AT_ONCE }]);
  const output = new Float32Array(plan.outputWidth);
  for (let first = 0; first + AT_ONCE <= rows; first += AT_ONCE) {
    plan.gather(
      Int32Array.from({ length: AT_ONCE }, (_, at) => first + at),
      1,
      output,
      0,
    );
  }
}
