import type { CallListener, Channel } from "./channel.ts";
import type { NowMicros } from "./monotonic-clock.ts";
import type { Recorder } from "./recorder.ts";
import type { RequestPool } from "./request-pool.ts";

/** Sends requests and takes their answers until the window's requests are all answered. */
export interface LoadLoop extends CallListener {
  start(): void;
  /** Tells that the window is over, for the case that nothing else happens any more. */
  windowOver(): void;
  /** No more sends and no more notes of answers. */
  stop(): void;
}

/** What a loop needs; `channels` are only used from `start` on. */
export interface LoopParts {
  readonly channels: readonly Pick<Channel, "call">[];
  readonly pool: Pick<RequestPool, "next" | "examples">;
  readonly recorder: Recorder;
  readonly now: NowMicros;
  /** Called once, when the window is over and none of its requests is outstanding. */
  readonly onFinished: () => void;
}

/**
 * Closed loop: each caller sends its next request when its last is answered. Caller i uses channel i modulo their number.
 *
 * Callers keep sending after the window until its last request is answered, so that those requests meet the same load as
 * all others.
 */
export class ClosedLoop implements LoadLoop {
  readonly #parts: LoopParts;
  readonly #sentMicros: Float64Array;
  /** Of each caller's outstanding request. */
  readonly #examples: Int32Array;
  #running = false;

  constructor(callers: number, parts: LoopParts) {
    this.#parts = parts;
    this.#sentMicros = new Float64Array(callers);
    this.#examples = new Int32Array(callers);
  }

  start(): void {
    this.#running = true;
    for (let caller = 0; caller < this.#sentMicros.length; caller++) this.#send(caller, this.#parts.now());
  }

  stop(): void {
    this.#running = false;
  }

  windowOver(): void {
    if (!this.#running || this.#parts.recorder.outstanding > 0) return;
    this.#running = false;
    this.#parts.onFinished();
  }

  onAnswer(caller: number, status: number, detail: string, bodyBytes: number): void {
    if (!this.#running) return;
    const { recorder, now } = this.#parts;
    const at = now();
    const sent = this.#sentMicros[caller] as number;
    recorder.answered(sent, sent, at, status, detail, this.#examples[caller] as number, bodyBytes);
    if (at >= recorder.window.toMicros) this.windowOver();
    if (this.#running) this.#send(caller, at);
  }

  #send(caller: number, atMicros: number): void {
    const { channels, pool, recorder } = this.#parts;
    this.#sentMicros[caller] = atMicros;
    recorder.sent(atMicros, atMicros);
    const frame = pool.next();
    this.#examples[caller] = pool.examples;
    (channels[caller % channels.length] as Pick<Channel, "call">).call(caller, frame);
  }
}
