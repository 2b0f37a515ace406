import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly samples: readonly number[];
}

/** What was measured, as it stands in a file; figures that are not measured now stay there as they are. */
export class Figures {
  readonly #file: string;
  readonly #byName: Map<string, Figure>;

  constructor(file: string) {
    this.#file = file;
    const known = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Figure[]) : [];
    this.#byName = new Map(known.map((figure) => [figure.name, figure]));
  }

  record(name: string, unit: string, samples: readonly number[]): void {
    const value = median(samples);
    this.#byName.set(name, { name, value, unit, samples });
    console.log(`${name}: ${value.toPrecision(4)} ${unit}`);
  }

  write(): void {
    mkdirSync(path.dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, `${JSON.stringify([...this.#byName.values()], undefined, 2)}\n`);
  }
}

export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
