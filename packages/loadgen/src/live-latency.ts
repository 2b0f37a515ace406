/** Buckets an octave: percentiles are right to a bucket of about 4 %. */
const PER_OCTAVE = 16;
const OCTAVES = 30;

/**
 * A coarse count of latencies for the progress line: cheap to record, small to send once a second. Results never come
 * from here but from {@link LatencyHistogram}.
 */
export class LiveLatency {
  #counts = new Uint32Array(PER_OCTAVE * OCTAVES);

  record(micros: number): void {
    const bucket = Math.floor(Math.log2(micros < 1 ? 1 : micros) * PER_OCTAVE);
    const last = this.#counts.length - 1;
    (this.#counts[bucket > last ? last : bucket] as number)++;
  }

  /** Takes the counts out as [bucket, count] pairs and starts anew. */
  take(): [bucket: number, count: number][] {
    const taken: [number, number][] = [];
    for (const [bucket, count] of this.#counts.entries()) if (count > 0) taken.push([bucket, count]);
    this.#counts.fill(0);
    return taken;
  }
}

/** A percentile of counts taken from one or several processes, in microseconds; undefined when there are none. */
export function livePercentileMicros(
  counts: readonly (readonly [bucket: number, count: number])[],
  percentile: number,
): number | undefined {
  const sorted = [...counts].sort((a, b) => a[0] - b[0]);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  let below = (total * percentile) / 100;
  for (const [bucket, count] of sorted) {
    below -= count;
    if (below <= 0) return 2 ** ((bucket + 0.5) / PER_OCTAVE);
  }
  return undefined;
}
