/** Parts of a request's way through the server, in order. */
export const STAGES = ["decode", "gather", "queue", "device", "respond"] as const;
export type Stage = (typeof STAGES)[number];

/** Bin i counts times below 2^i µs that are in no bin before it; the last one all that are longer (33 s). */
export const STAGE_BINS = 26;

/** Elements that the histograms need: for each stage its bins, then the sum of all times, milliseconds. */
export const STAGE_CELLS: number = STAGES.length * (STAGE_BINS + 1);

const FIRST_CELL: Readonly<Record<Stage, number>> = {
  decode: 0,
  gather: STAGE_BINS + 1,
  queue: 2 * (STAGE_BINS + 1),
  device: 3 * (STAGE_BINS + 1),
  respond: 4 * (STAGE_BINS + 1),
};

/** Histograms of how long stages take. One observation is a few additions. */
export class StageTimes {
  readonly #cells: Float64Array;

  /** Counts in `cells`, which others may read. */
  constructor(cells: Float64Array = new Float64Array(STAGE_CELLS)) {
    this.#cells = cells;
  }

  /** `decode`, `gather`: of a request. `queue`: from there to the start of its batch. `device`, `respond`: of a batch. */
  observe(stage: Stage, elapsedMs: number): void {
    const bin = Math.min(STAGE_BINS - 1, 32 - Math.clz32(elapsedMs * 1000));
    const first = FIRST_CELL[stage];
    (this.#cells[first + bin] as number) += 1;
    (this.#cells[first + STAGE_BINS] as number) += elapsedMs;
  }

  counts(stage: Stage): readonly number[] {
    const first = FIRST_CELL[stage];
    return [...this.#cells.subarray(first, first + STAGE_BINS)];
  }

  sumMs(stage: Stage): number {
    return this.#cells[FIRST_CELL[stage] + STAGE_BINS] as number;
  }
}
