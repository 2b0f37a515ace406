/** Buckets an octave: a latency is known to within 1/32 of itself. */
const PER_OCTAVE = 16;
const PER_OCTAVE_BITS = 4;
const LARGEST_MICROS = 0x7fff_ffff;
const BUCKETS = bucketOf(LARGEST_MICROS) + 1;

/** Below 16 µs a bucket a microsecond, then 16 each octave; in integers, because a logarithm would cost more than all else. */
function bucketOf(micros: number): number {
  const octave = 31 - Math.clz32(micros) - PER_OCTAVE_BITS;
  return octave <= 0 ? micros : octave * PER_OCTAVE + (micros >> octave);
}

/** The middle of a bucket. */
function microsOf(bucket: number): number {
  const octave = (bucket >> PER_OCTAVE_BITS) - 1;
  return octave <= 0 ? bucket : (bucket - octave * PER_OCTAVE + 0.5) * 2 ** octave;
}

/**
 * A coarse count of latencies for the progress line: cheap to record, small to send once a second. Results never come
 * from here but from {@link LatencyHistogram}.
 */
export class LiveLatency {
  #counts = new Uint32Array(BUCKETS);

  record(micros: number): void {
    (this.#counts[bucketOf(micros > LARGEST_MICROS ? LARGEST_MICROS : micros < 0 ? 0 : micros | 0)] as number)++;
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
    if (below <= 0) return microsOf(bucket);
  }
  return undefined;
}
