import { performance } from "node:perf_hooks";
import { rowLength, type Backend } from "./backend.ts";
import type { SharedFloat32Array, WarmUpReport } from "./device.ts";

export interface WarmUpOptions {
  /** Ascending. */
  readonly buckets: readonly number[];
  readonly budgetMs: number;
  readonly onWarmed: (bucket: number, done: number) => void;
  /** Monotonic milliseconds. Default `performance.now`. */
  readonly now?: () => number;
}

/**
 * Runs each bucket once on zeros, the smallest first, as long as the budget allows: a bucket is expected to take the
 * time of the one before, grown by as much as the bucket. That is never too little for long, because time per example falls
 * with the bucket. What the runtime allocates and plans for a batch size, it does here and not in the first request.
 */
export async function warmUp<Tensor>(backend: Backend<Tensor>, options: WarmUpOptions): Promise<WarmUpReport> {
  const { buckets, budgetMs, onWarmed, now = () => performance.now() } = options;
  const started = now();
  const largest = buckets.at(-1)!;
  // One allocation for all: the system gives its pages out only as far as a bucket touches them.
  const scratch = [...backend.inputs, ...backend.outputs].map((spec) => ({
    spec,
    length: rowLength(spec),
    data: new SharedArrayBuffer(largest * rowLength(spec) * 4),
  }));
  let lastMs = 0;
  let done = 0;
  for (const [index, bucket] of buckets.entries()) {
    const before = now();
    const expectedMs = index === 0 ? 0 : (lastMs * bucket) / buckets[index - 1]!;
    if (index > 0 && before - started + expectedMs > budgetMs) break;
    const tensors = scratch.map(({ spec, length, data }) => {
      const view: SharedFloat32Array = new Float32Array(data, 0, bucket * length);
      return backend.wrap(spec, bucket, view);
    });
    await backend.warm(bucket, tensors.slice(0, backend.inputs.length), tensors.slice(backend.inputs.length));
    lastMs = now() - before;
    done = index + 1;
    onWarmed(bucket, done);
  }
  return { warmed: buckets.slice(0, done), skipped: buckets.slice(done), elapsedMs: now() - started };
}
