/** Longest interval that timers take, milliseconds. */
const LONG_MS = 0x7fffffff;

/** Keeps a Node process or worker running while a thread waits for another: `Atomics.waitAsync` alone does not. */
export class KeepAlive {
  #timer: unknown;

  hold(): void {
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => {}, LONG_MS);
    } else {
      (this.#timer as { ref?: () => void }).ref?.();
    }
  }

  letGo(): void {
    (this.#timer as { unref?: () => void } | undefined)?.unref?.();
  }

  end(): void {
    clearInterval(this.#timer as ReturnType<typeof setInterval>);
    this.#timer = undefined;
  }
}
