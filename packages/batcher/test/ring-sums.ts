import { BatcherError } from "../src/shared/index.ts";
import type { RingBatch, RingProducer, RingSubmitOptions } from "../src/shared/index.ts";

// A ring for tests: each row has three numbers, and its result is their sum.

export const schema = {
  inputs: { x: { type: "float32", shape: [2] }, id: { type: "int32", shape: [] } },
  outputs: { sum: { type: "float64", shape: [] } },
} as const;

export type Schema = typeof schema;

/** sum = x[0] + x[1] + id, for each row. */
export function run({ inputs, outputs, size }: RingBatch<Schema>): void {
  for (let row = 0; row < size; row += 1) {
    outputs.sum[row] = (inputs.x[row * 2] as number) + (inputs.x[row * 2 + 1] as number) + (inputs.id[row] as number);
  }
}

/** Submits rows (a, b, id) and gives their sums. */
export function submit(
  producer: RingProducer<Schema>,
  rows: readonly (readonly [number, number, number])[],
  options?: RingSubmitOptions,
): Promise<number[]> {
  return producer.submit(
    rows.length,
    ({ inputs }, row) => {
      for (const [i, [a, b, id]] of rows.entries()) {
        inputs.x[(row + i) * 2] = a;
        inputs.x[(row + i) * 2 + 1] = b;
        inputs.id[row + i] = id;
      }
    },
    ({ outputs }, row, size) => [...outputs.sum.subarray(row, row + size)],
    options,
  );
}

export async function code(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "ok";
  } catch (error) {
    return error instanceof BatcherError ? error.code : String(error);
  }
}

/** Lets everything that other ends of the ring have to do be done: as many turns of the event loop as are certainly enough. */
export async function turns(): Promise<void> {
  for (let i = 0; i < 20; i += 1) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}
