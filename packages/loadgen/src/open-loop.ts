import type { Channel } from "./channel.ts";
import type { LoadLoop, LoopParts } from "./closed-loop.ts";
import type { Pacer } from "./pacer.ts";

export interface OpenLoopOptions {
  /** Send times, ascending, on the clock of `now`. */
  readonly schedule: Float64Array;
  /** Requests outstanding above which sends are dropped. */
  readonly maxInFlight: number;
  /** Wakes us when sends are due. */
  readonly pacer: Pacer;
}

/**
 * Open loop: each request is sent at its time in the schedule, whatever became of the others. A send that cannot be made,
 * because `maxInFlight` requests are outstanding, is dropped and counted, never put off.
 */
export class OpenLoop implements LoadLoop {
  readonly #parts: LoopParts;
  readonly #options: OpenLoopOptions;
  readonly #intendedMicros: Float64Array;
  readonly #sentMicros: Float64Array;
  readonly #examples: Int32Array;
  /** Numbers of requests that are not outstanding; a request's number is its token. */
  readonly #free: Int32Array;
  #freeCount: number;
  #next = 0;
  #nextChannel = 0;
  #running = false;

  constructor(options: OpenLoopOptions, parts: LoopParts) {
    this.#parts = parts;
    this.#options = options;
    const { maxInFlight } = options;
    this.#intendedMicros = new Float64Array(maxInFlight);
    this.#sentMicros = new Float64Array(maxInFlight);
    this.#examples = new Int32Array(maxInFlight);
    this.#free = Int32Array.from({ length: maxInFlight }, (_, i) => maxInFlight - 1 - i);
    this.#freeCount = maxInFlight;
  }

  start(): void {
    this.#running = true;
    this.#options.pacer.start(() => this.#sendDue());
  }

  stop(): void {
    this.#running = false;
    this.#options.pacer.stop();
  }

  windowOver(): void {
    this.#sendDue();
  }

  onAnswer(token: number, status: number, detail: string, bodyBytes: number): void {
    if (!this.#running) return;
    const { recorder, now } = this.#parts;
    this.#free[this.#freeCount++] = token;
    const intended = this.#intendedMicros[token] as number;
    const sent = this.#sentMicros[token] as number;
    recorder.answered(intended, sent, now(), status, detail, this.#examples[token] as number, bodyBytes);
    this.#finishIfOver();
  }

  #sendDue(): void {
    const { schedule } = this.#options;
    const { channels, pool, recorder, now } = this.#parts;
    let at = now();
    while (this.#running && this.#next < schedule.length && (schedule[this.#next] as number) <= at) {
      const intended = schedule[this.#next++] as number;
      if (this.#freeCount === 0) {
        recorder.droppedAt(intended);
        continue;
      }
      const token = this.#free[--this.#freeCount] as number;
      this.#intendedMicros[token] = intended;
      this.#sentMicros[token] = at;
      recorder.sent(intended, at);
      const frame = pool.next();
      this.#examples[token] = pool.examples;
      (channels[this.#nextChannel] as Pick<Channel, "call">).call(token, frame);
      this.#nextChannel = (this.#nextChannel + 1) % channels.length;
      at = now();
    }
    this.#finishIfOver();
  }

  #finishIfOver(): void {
    const { recorder, now, onFinished } = this.#parts;
    if (!this.#running || this.#next < this.#options.schedule.length || recorder.outstanding > 0) return;
    if (now() < recorder.window.toMicros) return;
    this.stop();
    onFinished();
  }
}
