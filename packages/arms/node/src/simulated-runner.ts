import type { DeviceSettings, SlotBuffers } from "./device-messages.ts";

type SimulatedSettings = Extract<DeviceSettings, { kind: "simulated" }>;

const FIXED_MICROS = 350;
const MICROS_PER_EXAMPLE = 4;

/** Time and sleep, in milliseconds; parameters so that tests need not wait. */
export interface Clock {
  now(): number;
  sleep(ms: number): void;
}

/** Never notified: waiting on it is sleeping. */
const sleeper = new Int32Array(new SharedArrayBuffer(4));

const realClock: Clock = {
  now: () => performance.now(),
  sleep: (ms) => void Atomics.wait(sleeper, 0, 0, ms),
};

/** A simulated accelerator: computes known scores, then sleeps for what is left of the time a call takes. */
export class SimulatedRunner {
  readonly #w: Float32Array;
  readonly #v: Float32Array;
  readonly #clock: Clock;

  constructor({ w, v }: Pick<SimulatedSettings, "w" | "v">, clock: Clock = realClock) {
    this.#w = w;
    this.#v = v;
    this.#clock = clock;
  }

  run({ bucket, dense, pooled, scores }: SlotBuffers, batch: number): Promise<void> {
    const endsAt = this.#clock.now() + (FIXED_MICROS + MICROS_PER_EXAMPLE * bucket) / 1000;
    for (let example = 0; example < batch; example++) {
      const sum = dot(this.#v, pooled, example * this.#v.length) + dot(this.#w, dense, example * this.#w.length);
      scores[example] = 1 / (1 + Math.exp(-sum));
    }
    const leftMs = endsAt - this.#clock.now();
    if (leftMs > 0) this.#clock.sleep(leftMs);
    return Promise.resolve();
  }
}

/** Four sums side by side: one alone would wait for each addition before the next. */
function dot(weights: Float32Array, values: Float32Array, at: number): number {
  let [s0, s1, s2, s3] = [0, 0, 0, 0];
  const fours = weights.length & ~3;
  let i = 0;
  for (; i < fours; i += 4) {
    s0 += (weights[i] as number) * (values[at + i] as number);
    s1 += (weights[i + 1] as number) * (values[at + i + 1] as number);
    s2 += (weights[i + 2] as number) * (values[at + i + 2] as number);
    s3 += (weights[i + 3] as number) * (values[at + i + 3] as number);
  }
  for (; i < weights.length; i++) s0 += (weights[i] as number) * (values[at + i] as number);
  return s0 + s1 + (s2 + s3);
}
