/**
 * What the server can do now. It only moves down this list, but for `serving` and `recovering`, which follow each other:
 *
 * | phase | health | Predict |
 * | --- | --- | --- |
 * | `starting` | NOT_SERVING | UNAVAILABLE |
 * | `serving` | SERVING | answered |
 * | `recovering` | NOT_SERVING | UNAVAILABLE, until the device is open again |
 * | `draining` | NOT_SERVING | UNAVAILABLE; what came before is answered |
 * | `closed` | NOT_SERVING, and watchers are let go | UNAVAILABLE |
 */
export type Phase = "starting" | "serving" | "recovering" | "draining" | "closed";

const rank: Readonly<Record<Phase, number>> = { starting: 0, serving: 1, recovering: 1, draining: 2, closed: 3 };

/** The server's phase, and who waits for it to change. */
export class HealthState {
  #phase: Phase = "starting";
  #reason: string | undefined;
  readonly #waiting = new Set<() => void>();

  get phase(): Phase {
    return this.#phase;
  }

  /** Why the server recovers or drains, if it is for something that went wrong. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Moves on; a phase that is behind already is left alone. */
  advance(phase: Phase, reason?: string): void {
    const before = this.#phase;
    if (phase === before || rank[phase] < rank[before]) return;
    this.#phase = phase;
    this.#reason = phase === "serving" ? undefined : (reason ?? (before === "draining" ? this.#reason : undefined));
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }

  /** Resolves at the next change of phase, or when `signal` is aborted. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) {
        resolve();
        return;
      }
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal.addEventListener("abort", wake);
    });
  }
}
