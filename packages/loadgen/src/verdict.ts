/** Above this part of its CPU the load generator, not the server, may be what is measured. */
export const MAX_CLIENT_CPU_FRACTION = 0.85;

/** Above this part of the sends being late or dropped, the offered rate was not offered. */
export const MAX_LATE_FRACTION = 0.01;

/** Above this part of requests failing, latencies of the others say little. */
export const MAX_ERROR_FRACTION = 0.001;

/** Whether a run measured the server. */
export interface LoadVerdict {
  readonly valid: boolean;
  /** Why not, each with what to do about it; empty when valid. */
  readonly reasons: readonly string[];
}

/** Judges a run by the bounds above. */
export function judge(run: {
  readonly clientCpuFraction: number;
  readonly intended: number;
  readonly dropped: number;
  readonly late: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly errorSample?: string;
}): LoadVerdict {
  const reasons: string[] = [];
  const failed = Object.values(run.errors).reduce((total, count) => total + count, 0);
  if (run.intended === 0) reasons.push("no request falls into the measured window: raise the rate or the duration");
  if (run.clientCpuFraction > MAX_CLIENT_CPU_FRACTION) {
    reasons.push(
      `client-bound: the load processes used ${percent(run.clientCpuFraction)} of their CPU (bound ${percent(MAX_CLIENT_CPU_FRACTION)}): give them more CPUs and processes`,
    );
  }
  if (run.late > run.intended * MAX_LATE_FRACTION) {
    reasons.push(
      `${run.late} of ${run.intended} sends were late (bound ${percent(MAX_LATE_FRACTION)}): give the load processes more CPU, or lower the rate`,
    );
  }
  if (run.dropped > 0) {
    reasons.push(
      `${run.dropped} of ${run.intended} sends were dropped, too many requests were outstanding: the server does not keep up with the rate: lower it`,
    );
  }
  if (failed > run.intended * MAX_ERROR_FRACTION) {
    reasons.push(
      `${failed} of ${run.intended} requests failed (bound ${percent(MAX_ERROR_FRACTION)}), first: ${run.errorSample ?? "unknown"}: put that right, or lower the load where the server refuses it`,
    );
  }
  return { valid: reasons.length === 0, reasons };
}

function percent(fraction: number): string {
  return `${Number((fraction * 100).toPrecision(3))} %`;
}
