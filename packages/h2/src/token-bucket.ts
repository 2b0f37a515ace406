/**
 * So many at once, and a tenth of it again each second. The clock is read only when the tokens have run out, so that taking
 * one costs a decrement.
 */
export class TokenBucket {
  private readonly burst: number;
  private readonly nowMs: () => number;
  private tokens: number;
  private filledAtMs: number;

  constructor(burst: number, nowMs: () => number) {
    this.burst = burst;
    this.nowMs = nowMs;
    this.tokens = burst;
    this.filledAtMs = nowMs();
  }

  /** False when there was none to take. */
  take(): boolean {
    if (this.tokens < 1) {
      const now = this.nowMs();
      this.tokens = Math.min(this.burst, this.tokens + ((now - this.filledAtMs) / 1000) * (this.burst / 10));
      this.filledAtMs = now;
      if (this.tokens < 1) return false;
    }
    this.tokens -= 1;
    return true;
  }

  /** One more, unless it is full. */
  give(): void {
    this.tokens = Math.min(this.burst, this.tokens + 1);
  }
}
