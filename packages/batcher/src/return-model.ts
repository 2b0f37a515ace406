/** Four bins an octave from 1 µs to 65 ms: closer than the waits that can pay, and a power is quickly taken. */
const BINS_AN_OCTAVE = 4;
const BINS = 64;
/** A group is followed this long at most. */
const HORIZON_MS = 2 ** (BINS / BINS_AN_OCTAVE) / 1000;
/** Groups followed at a time; the oldest is given up for a new one. */
const MAX_GROUPS = 8;
/** What a group teaches fades by this with each later one. */
const FADE = 0.95;
/** Weights are brought down from here, long before they lose digits. */
const HEAVY = 1e6;

/** The items answered at one moment, whose callers may send their next. */
interface Group {
  atMs: number;
  answered: number;
  returned: number;
  /** The first and the last bin with something in it. */
  first: number;
  last: number;
  readonly byDelay: Float64Array;
}

/**
 * How callers come back: which share of those that were answered has been followed by a new arrival after which time.
 *
 * A batcher cannot see who sends an item, so each arrival is taken for the return of the longest answered caller that
 * is still missing. For callers that each wait for their answer before they send again that is right but for the order
 * among equals; for arrivals that come by themselves it describes their rate just as well.
 */
export class ReturnModel {
  #groups: Group[] = [];
  /** Groups to use again: their arrays are made once. */
  readonly #spare: Group[] = [];
  /** Sums over groups, the latest of which counts `#weight`, each one before it `FADE` times as much. */
  #answered = 0;
  #weight = 1;
  readonly #byDelay = new Float64Array(BINS);
  /** Share that is back by the end of each bin; valid iff not `#stale`. */
  readonly #backBy = new Float64Array(BINS);
  #stale = false;

  arrived(nowMs: number, items: number): void {
    let left = items;
    for (let group = this.#groups[0]; group !== undefined && left > 0; group = this.#groups[0]) {
      const returned = Math.min(left, group.answered - group.returned);
      const i = binOf(nowMs - group.atMs);
      group.byDelay[i] = (group.byDelay[i] as number) + returned;
      group.first = Math.min(group.first, i);
      group.last = Math.max(group.last, i);
      group.returned += returned;
      left -= returned;
      if (group.returned >= group.answered) {
        this.#closeOldest();
      }
    }
  }

  answered(nowMs: number, items: number): void {
    for (let oldest = this.#groups[0]; oldest !== undefined; oldest = this.#groups[0]) {
      if (this.#groups.length < MAX_GROUPS && nowMs - oldest.atMs <= HORIZON_MS) {
        break;
      }
      this.#closeOldest();
    }
    const group = this.#spare.pop() ?? {
      atMs: 0,
      answered: 0,
      returned: 0,
      first: 0,
      last: 0,
      byDelay: new Float64Array(BINS),
    };
    group.atMs = nowMs;
    group.answered = items;
    group.returned = 0;
    group.first = BINS;
    group.last = -1;
    this.#groups.push(group);
  }

  /** Expected number of callers that come back after `nowMs` and by `untilMs`. */
  expected(nowMs: number, untilMs: number): number {
    if (this.#groups.length === 0) {
      // A caller that comes back closes its group: with one of them at a time there is nothing to sum over, nor to bring up to date.
      return 0;
    }
    this.#refresh();
    let sum = 0;
    for (const group of this.#groups) {
      const back = this.#shareBack(nowMs - group.atMs);
      if (back < 1) {
        const missing = group.answered - group.returned;
        sum += (missing * (this.#shareBack(untilMs - group.atMs) - back)) / (1 - back);
      }
    }
    return sum;
  }

  /** The moments in (nowMs, untilMs] at which another part of the callers has come back, earliest first. */
  moments(nowMs: number, untilMs: number): number[] {
    const moments: number[] = [];
    let largest: Group | undefined;
    for (const group of this.#groups) {
      if (largest === undefined || group.answered - group.returned > largest.answered - largest.returned) {
        largest = group;
      }
    }
    if (largest !== undefined) {
      for (let i = Math.max(0, binOf(nowMs - largest.atMs)); i < BINS; i += 1) {
        const moment = largest.atMs + 2 ** ((i + 1) / BINS_AN_OCTAVE) / 1000;
        if (moment > untilMs) {
          break;
        }
        if (moment > nowMs && (this.#byDelay[i] as number) > 0) {
          moments.push(moment);
        }
      }
    }
    return moments;
  }

  #shareBack(delayMs: number): number {
    const i = binOf(delayMs);
    const before = i === 0 ? 0 : (this.#backBy[i - 1] as number);
    const from = i === 0 ? 0 : 2 ** (i / BINS_AN_OCTAVE) / 1000;
    const to = 2 ** ((i + 1) / BINS_AN_OCTAVE) / 1000;
    return before + ((this.#backBy[i] as number) - before) * Math.min(1, Math.max(0, (delayMs - from) / (to - from)));
  }

  #closeOldest(): void {
    const group = this.#groups.shift() as Group;
    this.#weight /= FADE;
    if (this.#weight > HEAVY) {
      this.#answered /= this.#weight;
      for (let i = 0; i < BINS; i += 1) {
        this.#byDelay[i] = (this.#byDelay[i] as number) / this.#weight;
      }
      this.#weight = 1;
    }
    this.#answered += group.answered * this.#weight;
    for (let i = group.first; i <= group.last; i += 1) {
      this.#byDelay[i] = (this.#byDelay[i] as number) + (group.byDelay[i] as number) * this.#weight;
      group.byDelay[i] = 0;
    }
    this.#spare.push(group);
    this.#stale = true;
  }

  #refresh(): void {
    if (this.#stale) {
      this.#stale = false;
      let back = 0;
      for (let i = 0; i < BINS; i += 1) {
        back += this.#byDelay[i] as number;
        this.#backBy[i] = back / this.#answered;
      }
    }
  }
}

function binOf(delayMs: number): number {
  return Math.min(BINS - 1, Math.max(0, Math.floor(Math.log2(delayMs * 1000) * BINS_AN_OCTAVE)));
}
