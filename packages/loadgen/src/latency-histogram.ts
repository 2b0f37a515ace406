import {
  build,
  decodeFromCompressedBase64,
  encodeIntoCompressedBase64,
  type Histogram,
  initWebAssembly,
} from "hdr-histogram-js";

/** Latencies above this are recorded as this: ten minutes, in microseconds. */
export const MAX_LATENCY_MICROS = 600_000_000;

/**
 * Latencies in whole microseconds, in an HDR histogram of 3 significant digits. Load processes record, encode and send;
 * the parent adds them up, and only then reads percentiles.
 */
export class LatencyHistogram {
  readonly #histogram: Histogram;

  private constructor(histogram: Histogram) {
    this.#histogram = histogram;
  }

  /** Loads the WebAssembly build, which records in less than half the time; without it the JavaScript one is used. */
  static async prepare(): Promise<void> {
    await initWebAssembly();
    useWebAssembly = true;
  }

  static create(): LatencyHistogram {
    return new LatencyHistogram(
      build({
        lowestDiscernibleValue: 1,
        highestTrackableValue: MAX_LATENCY_MICROS,
        numberOfSignificantValueDigits: 3,
        bitBucketSize: useWebAssembly ? 32 : 64,
        useWebAssembly,
      }),
    );
  }

  /** Reads what {@link encode} wrote (HDR V2, compressed, base64). */
  static decode(text: string): LatencyHistogram {
    return new LatencyHistogram(decodeFromCompressedBase64(text, 64, false));
  }

  /** Adds up encoded histograms; of none, it is empty. */
  static merge(texts: readonly string[]): LatencyHistogram {
    // In JavaScript and 64-bit counters whatever the parts were recorded in: sums may pass 2^32.
    const sum = new LatencyHistogram(
      build({
        lowestDiscernibleValue: 1,
        highestTrackableValue: MAX_LATENCY_MICROS,
        numberOfSignificantValueDigits: 3,
        bitBucketSize: 64,
      }),
    );
    for (const text of texts) sum.#histogram.add(LatencyHistogram.decode(text).#histogram);
    return sum;
  }

  /** Latencies recorded. */
  get count(): number {
    return this.#histogram.totalCount;
  }

  get meanMicros(): number {
    return this.count === 0 ? 0 : this.#histogram.mean;
  }

  get maxMicros(): number {
    return this.count === 0 ? 0 : this.#histogram.maxValue;
  }

  record(micros: number): void {
    // A clock that is read twice can differ by less than its own resolution; below 0 there is nothing to record.
    const whole = Math.round(micros);
    this.#histogram.recordValue(whole < 0 ? 0 : whole > MAX_LATENCY_MICROS ? MAX_LATENCY_MICROS : whole);
  }

  /** The value that `percentile` % of the latencies do not exceed; 0 when empty. */
  percentileMicros(percentile: number): number {
    return this.count === 0 ? 0 : this.#histogram.getValueAtPercentile(percentile);
  }

  encode(): string {
    return encodeIntoCompressedBase64(this.#histogram);
  }
}

let useWebAssembly = false;
