import type { BatchingPolicy } from "@dlrm/batcher";
import type { SimulatedDevice, SimulatedLoad, SimulationResult } from "./simulator.ts";
import { MAX_BATCH_SIZE, runMicrosOf, simulate } from "./simulator.ts";

export const DEVICES: readonly SimulatedDevice[] = [
  { name: "350 µs + 4 µs", fixedMicros: 350, perItemMicros: 4 },
  { name: "50 µs + 1 µs", fixedMicros: 50, perItemMicros: 1 },
  { name: "2 ms + 0.5 µs", fixedMicros: 2000, perItemMicros: 0.5 },
  { name: "0 + 30 µs", fixedMicros: 0, perItemMicros: 30 },
  {
    // A batch of 128 is in the cache of the core, one of 1,024 is not: onnxruntime, DLRM-DCNv2's dense network, one core of an EPYC.
    name: "a CPU: 51 µs for 1, 556 for 128, 7,850 for 1,024",
    fixedMicros: 50,
    perItemMicros: 4,
    microsBySize: [51, 55, 61, 75, 104, 169, 300, 556, 1221, 2809, 7850, 18_090, 36_200],
  },
];
export const REQUEST_SIZES: readonly number[] = [1, 16, 128];
export const CALLERS: readonly number[] = [1, 4, 16, 64, 256];
/** Shares of what the device can do: with each request alone, and with full batches. */
export const OPEN_SHARES: readonly number[] = [0.5, 0.8];
export const POLICIES: readonly BatchingPolicy[] = ["off", "window", "adaptive"];
export const BUDGET_MS = 20;
/** Poisson arrivals are measured for twice this. */
const OPEN_WARMUP_S = 0.05;

export interface GridPoint {
  readonly device: SimulatedDevice;
  readonly requestSize: number;
  readonly load: SimulatedLoad;
  /** `C=16`, `50% of off`, `80% of full`. */
  readonly loadName: string;
  readonly results: Readonly<Record<BatchingPolicy, SimulationResult>>;
  /** Of `adaptive` to the better of the others, each measure by itself. */
  readonly throughputRatio: number;
  readonly p99Ratio: number;
}

export interface GridOptions {
  readonly requests: number;
  readonly seed: number;
  readonly devices?: readonly SimulatedDevice[];
  readonly roundTripSpread?: number;
  readonly callers?: readonly number[];
  readonly runNoise?: number;
  /** Whether Poisson arrivals are played, too. Default true. */
  readonly openLoads?: boolean;
  readonly onPoint?: (point: GridPoint, done: number, total: number) => void;
}

/** Plays every device, request size and load under every policy, each policy with the same random numbers. */
export async function playGrid(options: GridOptions): Promise<readonly GridPoint[]> {
  const { requests, seed, devices = DEVICES, callers = CALLERS, onPoint } = options;
  const cases = devices.flatMap((device) =>
    REQUEST_SIZES.flatMap((requestSize) =>
      loadsOf(device, requestSize, callers)
        .filter(({ load }) => load.kind === "closed" || options.openLoads !== false)
        .map(({ load, loadName }) => ({ device, requestSize, load, loadName })),
    ),
  );
  const points: GridPoint[] = [];
  for (const { device, requestSize, load, loadName } of cases) {
    const results = {} as Record<BatchingPolicy, SimulationResult>;
    for (const policy of POLICIES) {
      // Enough for a hundred of the largest batches; 20 rounds of all callers.
      const least = load.kind === "closed" ? load.callers * 20 : Math.ceil(load.requestsPerS * OPEN_WARMUP_S);
      results[policy] = await simulate({
        device,
        requestSize,
        load,
        policy,
        seed,
        requests: Math.max(requests, least * 2),
        warmupRequests: Math.max(requests / 2, least),
        ...(options.roundTripSpread === undefined ? {} : { roundTripSpread: options.roundTripSpread }),
        ...(options.runNoise === undefined ? {} : { runNoise: options.runNoise }),
      });
    }
    const { off, window, adaptive } = results;
    const point: GridPoint = {
      device,
      requestSize,
      load,
      loadName,
      results,
      throughputRatio: adaptive.itemsPerS / Math.max(off.itemsPerS, window.itemsPerS),
      p99Ratio: adaptive.p99Ms / Math.min(off.p99Ms, window.p99Ms),
    };
    points.push(point);
    onPoint?.(point, points.length, cases.length);
  }
  return points;
}

function loadsOf(
  device: SimulatedDevice,
  requestSize: number,
  callers: readonly number[],
): { readonly load: SimulatedLoad; readonly loadName: string }[] {
  const micros = (size: number): number => runMicrosOf(device, size);
  const perSecond = {
    off: 1e6 / micros(requestSize),
    full: (1e6 * MAX_BATCH_SIZE) / requestSize / micros(MAX_BATCH_SIZE),
  };
  return [
    ...callers.map((count) => ({ load: { kind: "closed", callers: count } as const, loadName: `C=${count}` })),
    ...(["off", "full"] as const).flatMap((base) =>
      OPEN_SHARES.map((share) => ({
        load: { kind: "open", requestsPerS: share * perSecond[base] } as const,
        loadName: `${share * 100}% of ${base}`,
      })),
    ),
  ];
}

export interface GridFigures {
  readonly adaptive_worst_throughput_ratio: number;
  readonly adaptive_worst_p99_ratio: number;
  /**
   * Geometric mean over devices and request sizes of: the best closed-loop throughput with p99 within the budget, to
   * the better of the others'.
   */
  readonly adaptive_budget_gain: number;
}

export function figuresOf(points: readonly GridPoint[]): GridFigures {
  const closed = points.filter(({ load }) => load.kind === "closed");
  const groups = Map.groupBy(closed, ({ device, requestSize }) => `${device.name} ${requestSize}`);
  const gains: number[] = [];
  for (const group of groups.values()) {
    const best = (policy: BatchingPolicy): number =>
      Math.max(0, ...group.map(({ results }) => (results[policy].p99Ms <= BUDGET_MS ? results[policy].itemsPerS : 0)));
    const other = Math.max(best("off"), best("window"));
    if (other > 0) {
      gains.push(best("adaptive") / other);
    }
  }
  return {
    adaptive_worst_throughput_ratio: Math.min(...points.map((point) => point.throughputRatio)),
    adaptive_worst_p99_ratio: Math.max(...points.map((point) => point.p99Ratio)),
    adaptive_budget_gain: Math.exp(gains.reduce((sum, gain) => sum + Math.log(gain), 0) / gains.length),
  };
}
