import type { BucketStats, DeviceStats } from "./device.ts";

/** What two devices did that stand for one, `before` and `after`. */
export function addStats(before: DeviceStats, after: DeviceStats): DeviceStats {
  const byBucket = new Map<number, BucketStats>();
  for (const { bucket, executions, rows, busyMicros } of [...before.byBucket, ...after.byBucket]) {
    const sum = byBucket.get(bucket) ?? { bucket, executions: 0, rows: 0, busyMicros: 0 };
    byBucket.set(bucket, {
      bucket,
      executions: sum.executions + executions,
      rows: sum.rows + rows,
      busyMicros: sum.busyMicros + busyMicros,
    });
  }
  return {
    executions: before.executions + after.executions,
    failures: before.failures + after.failures,
    cancellations: before.cancellations + after.cancellations,
    rows: before.rows + after.rows,
    paddedRows: before.paddedRows + after.paddedRows,
    busyMicros: before.busyMicros + after.busyMicros,
    inFlight: before.inFlight + after.inFlight,
    ...(before.inputTransfers && after.inputTransfers
      ? {
          inputTransfers: {
            inPlace: before.inputTransfers.inPlace + after.inputTransfers.inPlace,
            copied: before.inputTransfers.copied + after.inputTransfers.copied,
          },
        }
      : {}),
    byBucket: [...byBucket.values()].sort((a, b) => a.bucket - b.bucket),
  };
}

/** Counts what a device did. Buckets are named by their index, so that counting is one array access. */
export class StatsCounter {
  readonly #buckets: { readonly bucket: number; executions: number; rows: number; busyMicros: number }[];
  #failures = 0;
  #failedBusyMicros = 0;
  #cancellations = 0;

  constructor(buckets: readonly number[]) {
    this.#buckets = buckets.map((bucket) => ({ bucket, executions: 0, rows: 0, busyMicros: 0 }));
  }

  /** Its index is the number of those before. */
  addBucket(bucket: number): void {
    this.#buckets.push({ bucket, executions: 0, rows: 0, busyMicros: 0 });
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
    byBucket.sort((a, b) => a.bucket - b.bucket);
    const failures = this.#failures;
    const cancellations = this.#cancellations;
    return { executions, failures, cancellations, rows, paddedRows, busyMicros, inFlight, byBucket };
  }
}
