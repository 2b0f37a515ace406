/** Where a run is, about once a second. */
export interface LoadProgress {
  /** `draining`: the window is over, its last answers are awaited. */
  readonly phase: "warmup" | "measuring" | "draining";
  /** Seconds since load began, warm-up included. */
  readonly elapsedS: number;
  /** Seconds until the end of the measured window. */
  readonly leftS: number;
  /** Answers of the last interval, per second. */
  readonly requestsPerS: number;
  readonly examplesPerS: number;
  /** Of the last interval, to within 4 %; undefined when nothing was answered. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /** Failed requests since load began. */
  readonly errors: number;
}
