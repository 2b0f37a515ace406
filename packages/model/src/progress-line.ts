/** Where progress goes; standard error in the CLI. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

/** On a terminal the line is redrawn this often, elsewhere a new line is written. */
const TERMINAL_INTERVAL_MS = 100;
const LOG_INTERVAL_MS = 2000;
/** Before this much time a speed says nothing. */
const SPEED_FROM_MS = 500;
const ERASE_LINE = "\r\u001B[2K";

/** Shows how far a long task over bytes is, and when it will be done. */
export class ProgressLine {
  readonly #output: ProgressOutput;
  readonly #title: string;
  readonly #now: () => number;
  readonly #startMs: number;
  #shownMs = Number.NEGATIVE_INFINITY;

  /** @param now a monotonic clock in milliseconds. */
  constructor(title: string, output: ProgressOutput, now: () => number = () => performance.now()) {
    this.#title = title;
    this.#output = output;
    this.#now = now;
    this.#startMs = now();
  }

  update(doneBytes: number, totalBytes: number): void {
    const nowMs = this.#now();
    const terminal = this.#output.isTTY === true;
    if (nowMs - this.#shownMs < (terminal ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS)) return;
    this.#shownMs = nowMs;
    const elapsedMs = nowMs - this.#startMs;
    const line = `${this.#title}: ${describeProgress(doneBytes, totalBytes, elapsedMs)}`;
    this.#output.write(terminal ? `${ERASE_LINE}${line}` : `${line}\n`);
  }

  /** Leaves the output as if no progress had been shown on it (on a terminal). */
  clear(): void {
    if (this.#output.isTTY === true && this.#shownMs !== Number.NEGATIVE_INFINITY) this.#output.write(ERASE_LINE);
  }
}

/** `1.2 of 3.2 GB (38 %), 510 MB/s, 4 s left` */
export function describeProgress(doneBytes: number, totalBytes: number, elapsedMs: number): string {
  const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(bytes < 1e8 ? 3 : 1);
  const percent = totalBytes > 0 ? Math.floor((100 * doneBytes) / totalBytes) : 100;
  const text = `${gigabytes(doneBytes)} of ${gigabytes(totalBytes)} GB (${percent} %)`;
  if (elapsedMs < SPEED_FROM_MS || doneBytes <= 0) return text;
  const bytesPerMs = doneBytes / elapsedMs;
  const leftS = Math.ceil((totalBytes - doneBytes) / bytesPerMs / 1000);
  return `${text}, ${Math.round((bytesPerMs * 1000) / 1e6)} MB/s, ${leftS} s left`;
}
