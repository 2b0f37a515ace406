import { LoadError } from "./load-error.ts";
import { Random } from "./random.ts";

/** Stream numbers of the seed: requests use those from 0 up, the schedule this one. */
const SCHEDULE_STREAM = 0xffff_ffff;

/** More sends than this in one run are a mistake in the options rather than a wish: 50 M take 400 MB. */
const MAX_SENDS = 50_000_000;

export interface PoissonScheduleOptions {
  readonly seed: number;
  /** Mean rate, sends per second. */
  readonly ratePerS: number;
  /** The schedule covers [0, lengthS). */
  readonly lengthS: number;
  /** The rate rises evenly from 0 to the mean rate over so many seconds. Default 0: the mean rate at once. */
  readonly rampS?: number;
  /** Which sends are ours: number `part`, `part + parts`, `part + 2 * parts`, … of the whole schedule. */
  readonly part?: number;
  readonly parts?: number;
}

/**
 * The times of all sends of an open-loop run, made before it starts: arrivals of a Poisson process (exponential gaps),
 * in microseconds from the start, ascending. One seed gives one schedule, however many parts it is dealt out to.
 */
export function poissonSchedule(options: PoissonScheduleOptions): Float64Array<SharedArrayBuffer> {
  const { seed, ratePerS, lengthS, rampS = 0, part = 0, parts = 1 } = options;
  if (ratePerS * lengthS > MAX_SENDS) {
    throw new LoadError(
      "invalid_options",
      `${ratePerS} sends/s for ${lengthS} s are ${ratePerS * lengthS} sends, the limit is ${MAX_SENDS}`,
    );
  }
  const random = new Random(seed, SCHEDULE_STREAM);
  const times: number[] = [];
  const meanGapMicros = 1e6 / ratePerS;
  const rampMicros = rampS * 1e6;
  const endMicros = lengthS * 1e6;
  // Time as it would be at the mean rate throughout: the ramp has half as many sends.
  let evenMicros = 0;
  for (let send = 0; ; send++) {
    evenMicros -= Math.log1p(-random.unit()) * meanGapMicros;
    const atMicros = evenMicros < rampMicros / 2 ? Math.sqrt(2 * rampMicros * evenMicros) : evenMicros + rampMicros / 2;
    if (atMicros >= endMicros) break;
    if (send % parts === part) times.push(atMicros);
  }
  const schedule = new Float64Array(new SharedArrayBuffer(times.length * 8));
  schedule.set(times);
  return schedule;
}
