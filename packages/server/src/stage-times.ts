/** Parts of a request's way through the server, in order. */
export const STAGES = ["decode", "gather", "queue", "device", "respond"] as const;
export type Stage = (typeof STAGES)[number];

/** Bin i counts times below 2^i µs that are in no bin before it; the last one all that are longer (33 s). */
export const STAGE_BINS = 26;

/** Histograms of how long stages take. One observation is a few additions. */
export class StageTimes {
  readonly #counts: Readonly<Record<Stage, Float64Array>>;
  readonly #sumMs: Record<Stage, number> = { decode: 0, gather: 0, queue: 0, device: 0, respond: 0 };

  constructor() {
    const bins = (): Float64Array => new Float64Array(STAGE_BINS);
    this.#counts = { decode: bins(), gather: bins(), queue: bins(), device: bins(), respond: bins() };
  }

  /** `decode`, `gather`: of a request. `queue`: from there to the start of its batch. `device`, `respond`: of a batch. */
  observe(stage: Stage, elapsedMs: number): void {
    const bin = Math.min(STAGE_BINS - 1, 32 - Math.clz32(elapsedMs * 1000));
    (this.#counts[stage][bin] as number)++;
    this.#sumMs[stage] += elapsedMs;
  }

  counts(stage: Stage): readonly number[] {
    return [...this.#counts[stage]];
  }

  sumMs(stage: Stage): number {
    return this.#sumMs[stage];
  }
}
