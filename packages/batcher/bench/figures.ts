import type { GridFigures } from "./grid.ts";
import type { OverheadResult } from "./overhead.ts";
import { median } from "./overhead.ts";
import type { SharedCost } from "./shared-cost.ts";

/** One figure of `bench-results/batcher.json`; the value is the median of the samples. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly samples: readonly number[];
}

function figureOf(name: string, unit: string, samples: readonly (number | undefined)[]): Figure[] {
  const there = samples.filter((sample) => sample !== undefined);
  return there.length === 0 ? [] : [{ name, value: median(there), unit, samples: there }];
}

export function gridFigures(grid: GridFigures): Figure[] {
  return Object.entries(grid).flatMap(([name, value]) => figureOf(name, "ratio", [value as number]));
}

export function overheadFigures(results: readonly OverheadResult[]): Figure[] {
  return [
    ...figureOf(
      "inthread_ns_per_item",
      "ns of CPU an item",
      results.map((result) => result.batcherNsPerItem),
    ),
    ...figureOf(
      "dataloader_ns_per_item",
      "ns of CPU an item",
      results.map((result) => result.dataloaderNsPerItem),
    ),
    ...figureOf(
      "inthread_vs_dataloader",
      "ratio",
      results.map(({ ratio }) => ratio),
    ),
  ];
}

/** `suffix`: of the names, for what was measured in other conditions. */
export function sharedFigures(rounds: readonly SharedCost[], suffix: string): Figure[] {
  const of = (name: string, key: keyof SharedCost, unit: string): Figure[] =>
    figureOf(
      `${name}${suffix}`,
      unit,
      rounds.map((round) => round[key]),
    );
  return [
    ...of("shared_alone_us", "aloneMicros", "µs of CPU an item"),
    ...of("shared_alone_asleep_us", "aloneAsleepMicros", "µs of CPU an item"),
    ...of("shared_alone_slow_run_us", "aloneSlowRunMicros", "µs of CPU an item"),
    ...of("shared_alone_slow_run_asleep_us", "aloneSlowRunAsleepMicros", "µs of CPU an item"),
    ...of("shared_batched_us", "batchedMicros", "µs of CPU an item"),
    ...of("wake_floor_us", "wakeFloorMicros", "µs of CPU a round"),
    ...of("wake_floor_blocking_us", "blockingWakeFloorMicros", "µs of CPU a round"),
    ...of("shared_alone_round_trip_us", "aloneRoundTripMicros", "µs"),
  ];
}
