import { formatSeconds } from "./time-left.ts";

/** Where progress goes; a terminal also gets a line that changes. */
export interface ProgressStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

/** Shows which step runs, how many there are, and the time left. */
export class Progress {
  readonly #stream: ProgressStream;
  #live = false;

  constructor(stream: ProgressStream) {
    this.#stream = stream;
  }

  /** @param index from 0. */
  step(index: number, count: number, text: string, leftS: number): void {
    this.note(`[${String(index + 1).padStart(String(count).length)}/${count}] ${text} (${formatSeconds(leftS)} left)`);
  }

  /** A line that stays. */
  note(text: string): void {
    this.#clear();
    this.#stream.write(`${text}\n`);
  }

  /** A line that the next one replaces; only on a terminal. */
  update(text: string): void {
    if (this.#stream.isTTY !== true) return;
    this.#clear();
    this.#stream.write(`  ${text}`.slice(0, (this.#stream.columns ?? 80) - 1));
    this.#live = true;
  }

  end(): void {
    this.#clear();
  }

  #clear(): void {
    if (!this.#live) return;
    this.#stream.write("\r\u001B[K");
    this.#live = false;
  }
}
