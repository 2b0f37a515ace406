import type { BucketStats, DeviceStats } from "./device.ts";

/** Counts what a device did. Buckets are named by their index, so that counting is one array access. */
export class StatsCounter {
  readonly #buckets: { readonly bucket: number; executions: number; rows: number; busyMicros: number }[];
  #failures = 0;
  #failedBusyMicros = 0;
  #cancellations = 0;

  constructor(buckets: readonly number[]) {
    this.#buckets = buckets.map((bucket) => ({ bucket, executions: 0, rows: 0, busyMicros: 0 }));
  }

  countDone(bucketIndex: number, rows: number, busyMicros: number): void {
    const counts = this.#buckets[bucketIndex]!;
    counts.executions += 1;
    counts.rows += rows;
    counts.busyMicros += busyMicros;
  }

  countFailed(busyMicros: number): void {
    this.#failures += 1;
    this.#failedBusyMicros += busyMicros;
  }

  countCancelled(): void {
    this.#cancellations += 1;
  }

  snapshot(inFlight: number): DeviceStats {
    let executions = 0;
    let rows = 0;
    let paddedRows = 0;
    let busyMicros = this.#failedBusyMicros;
    const byBucket: BucketStats[] = [];
    for (const counts of this.#buckets) {
      if (counts.executions === 0) continue;
      executions += counts.executions;
      rows += counts.rows;
      paddedRows += counts.executions * counts.bucket - counts.rows;
      busyMicros += counts.busyMicros;
      byBucket.push({ ...counts });
    }
    const failures = this.#failures;
    const cancellations = this.#cancellations;
    return { executions, failures, cancellations, rows, paddedRows, busyMicros, inFlight, byBucket };
  }
}
