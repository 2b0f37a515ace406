/** Longest interval that timers take, milliseconds. */
const LONG_MS = 0x7fffffff;

/** Keeps a Node process or worker running while a thread waits for another: `Atomics.waitAsync` alone does not. */
export class KeepAlive {
  #timer: unknown;
  #holds = 0;

  /** Whether something waits. */
  get held(): boolean {
    return this.#holds > 0;
  }

  hold(): void {
    this.#holds += 1;
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => {}, LONG_MS);
    } else if (this.#holds === 1) {
      (this.#timer as { ref?: () => void }).ref?.();
    }
  }

  /** Once for each `hold`. */
  letGo(): void {
    this.#holds -= 1;
    if (this.#holds === 0) {
      (this.#timer as { unref?: () => void } | undefined)?.unref?.();
    }
  }

  end(): void {
    clearInterval(this.#timer as ReturnType<typeof setInterval>);
    this.#timer = undefined;
  }
}
