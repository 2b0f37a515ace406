import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { FIGURES, reaches } from "./figures.ts";
import type { Aim, FigureName, Result } from "./figures.ts";

/** `bench-results/embedding.json`, a list of results, and beside it `….environment.json`, what they were measured with. */
export class ResultsFile {
  readonly #file: string;
  readonly #results: Map<string, Result>;
  readonly #environment: Record<string, string>;
  readonly #missing = new Map<string, string>();

  private constructor(file: string, results: readonly Result[], environment: Record<string, string>) {
    this.#file = file;
    this.#results = new Map(results.map((result) => [result.name, result]));
    this.#environment = environment;
  }

  /** The file, with what it holds if `keep`. */
  static async open(file: string, keep: boolean): Promise<ResultsFile> {
    const read = async (name: string): Promise<unknown> =>
      keep
        ? readFile(name, "utf8").then(
            (text) => JSON.parse(text) as unknown,
            () => undefined,
          )
        : undefined;
    const results = (await read(file)) as readonly Result[] | undefined;
    const environment = (await read(environmentFileOf(file))) as Record<string, string> | undefined;
    return new ResultsFile(file, results ?? [], environment ?? {});
  }

  get(name: string): Result | undefined {
    return this.#results.get(name);
  }

  set(result: Result): void {
    this.#results.set(result.name, result);
  }

  /** Says why there is no such figure. */
  miss(name: FigureName, why: string): void {
    this.#missing.set(name, why);
  }

  get environment(): Readonly<Record<string, string>> {
    return this.#environment;
  }

  /** Adds to the environment. */
  note(name: string, value: string): void {
    this.#environment[name] = value;
  }

  /** Writes both files and gives the figures as lines of text. */
  async write(): Promise<string> {
    await mkdir(path.dirname(this.#file), { recursive: true });
    const write = (file: string, value: unknown) => writeFile(file, `${JSON.stringify(value, undefined, 2)}\n`);
    await write(this.#file, [...this.#results.values()]);
    await write(environmentFileOf(this.#file), this.#environment);
    const lines = (Object.entries(FIGURES) as [FigureName, Aim][]).map(([name, aim]) => {
      const result = this.#results.get(name);
      const short = result !== undefined && !reaches(aim, result.value) ? " (short of its aim)" : "";
      const text =
        result === undefined
          ? `missing${this.#missing.has(name) ? `: ${this.#missing.get(name)}` : ""}`
          : `${result.value.toPrecision(3)} ${aim.unit}${short}`;
      return `${name.padEnd(32)} ${text.padEnd(32)} ${aim.what}`;
    });
    return [...lines, `written to ${path.relative(process.cwd(), this.#file)}`].join("\n");
  }
}

function environmentFileOf(file: string): string {
  return file.replace(/(\.json)?$/, ".environment.json");
}
