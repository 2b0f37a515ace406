import { MAX_WINDOW_BYTES } from "./frame.ts";

/** What the peer lets us send. May become negative when the peer shrinks its initial window (RFC 9113 §6.9.2). */
export class SendWindow {
  #bytes: number;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  reset(bytes: number): void {
    this.#bytes = bytes;
  }

  take(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Adds credit, which may be negative. False where the window would pass its legal maximum. */
  give(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= MAX_WINDOW_BYTES;
  }
}

/** What we let the peer send: credit is given back in large steps, once half of the window is used. */
export class Flow {
  #windowBytes: number;
  #usedBytes = 0;

  constructor(windowBytes: number) {
    this.#windowBytes = windowBytes;
  }

  reset(windowBytes: number): void {
    this.#windowBytes = windowBytes;
    this.#usedBytes = 0;
  }

  /** Takes note of bytes that arrived. False where the peer sent more than it was allowed to. */
  arrive(bytes: number): boolean {
    this.#usedBytes += bytes;
    return this.#usedBytes <= this.#windowBytes;
  }

  /** Bytes to give back now, by a WINDOW_UPDATE; 0 where it can wait. */
  credit(): number {
    if (this.#usedBytes * 2 < this.#windowBytes) return 0;
    const bytes = this.#usedBytes;
    this.#usedBytes = 0;
    return bytes;
  }
}
