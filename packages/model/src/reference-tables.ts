import { open, type FileHandle } from "node:fs/promises";
import type { Bundle } from "./bundle.ts";
import { ModelError } from "./model-error.ts";
import type { FeatureSpec } from "./model-spec.ts";
import type { TensorEntry } from "./safetensors-header.ts";
import { readFully, readSafetensorsHeader } from "./safetensors-reader.ts";

/** Rows closer than this in the file are read together: reading what lies between them is cheaper than another read. */
const JOIN_GAP_BYTES = 16 << 10;
/** A read of neighbouring rows is at most this long. */
const MAX_READ_BYTES = 1 << 20;
/** Rows kept for later calls; beyond this they are all forgotten and read again. */
const CACHE_BYTES = 64 << 20;

/** Rows of the tables of a bundle, read one by one from the file and kept for a while. */
export class ReferenceTables {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #dim: number;
  readonly #tables: ReadonlyMap<string, { readonly entry: TensorEntry; readonly rows: Map<number, Float32Array> }>;
  #cachedBytes = 0;

  private constructor(file: FileHandle, path: string, dim: number, entries: readonly TensorEntry[]) {
    this.#file = file;
    this.#path = path;
    this.#dim = dim;
    this.#tables = new Map(entries.map((entry) => [entry.name, { entry, rows: new Map<number, Float32Array>() }]));
  }

  /** @throws {ModelError} `invalid_bundle` if a table is missing or has another type or shape. */
  static async open(bundle: Bundle): Promise<ReferenceTables> {
    const { paths, spec } = bundle;
    const { tensors } = await readSafetensorsHeader(paths.tables);
    const byName = new Map(tensors.map((entry) => [entry.name, entry]));
    const entries = spec.features.map(({ name, vocabularySize }) => {
      const entry = byName.get(name);
      const wanted = `F32 [${vocabularySize}, ${spec.embeddingDim}]`;
      const got = entry === undefined ? "no such tensor" : `${entry.dtype} [${entry.shape.join(", ")}]`;
      if (entry === undefined || got !== wanted) {
        throw new ModelError("invalid_bundle", `${paths.tables}: table ${name}: expected ${wanted}, got ${got}`);
      }
      return entry;
    });
    return new ReferenceTables(await open(paths.tables, "r"), paths.tables, spec.embeddingDim, entries);
  }

  /**
   * Sums of bags of one feature: adds them to `pooled`, row-major with `pooledWidth` values an example, from column `column`.
   * @param ids [batch, hotSize], each in the table.
   */
  async addBags(
    feature: FeatureSpec,
    ids: Int32Array,
    pooled: Float64Array,
    pooledWidth: number,
    column: number,
  ): Promise<void> {
    const rows = await this.#rows(feature.name, new Set(ids));
    for (const [position, id] of ids.entries()) {
      const row = rows.get(id) as Float32Array;
      const start = Math.floor(position / feature.hotSize) * pooledWidth + column;
      for (let index = 0; index < row.length; index++) {
        pooled[start + index] = (pooled[start + index] as number) + (row[index] as number);
      }
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #rows(name: string, ids: ReadonlySet<number>): Promise<ReadonlyMap<number, Float32Array>> {
    const table = this.#tables.get(name);
    if (table === undefined) throw new ModelError("invalid_input", `no table ${JSON.stringify(name)}`);
    const found = new Map<number, Float32Array>();
    const missing: number[] = [];
    for (const id of ids) {
      const row = table.rows.get(id);
      if (row === undefined) missing.push(id);
      else found.set(id, row);
    }
    const rowBytes = this.#dim * 4;
    for (const { first, last, ids: wanted } of rowRuns(missing, rowBytes)) {
      const bytes = await readFully(
        this.#file,
        table.entry.offset + first * rowBytes,
        (last - first + 1) * rowBytes,
        this.#path,
      );
      for (const id of wanted) {
        const row = new Float32Array(bytes.buffer.slice((id - first) * rowBytes, (id - first + 1) * rowBytes));
        found.set(id, row);
        this.#keep(table.rows, id, row);
      }
    }
    return found;
  }

  #keep(rows: Map<number, Float32Array>, id: number, row: Float32Array): void {
    if (this.#cachedBytes + row.byteLength > CACHE_BYTES) {
      for (const table of this.#tables.values()) table.rows.clear();
      this.#cachedBytes = 0;
    }
    if (!rows.has(id)) this.#cachedBytes += row.byteLength;
    rows.set(id, row);
  }
}

/** Rows `first` to `last` of a table, to be read at once for the sake of `ids`. */
interface RowRun {
  first: number;
  last: number;
  ids: number[];
}

function rowRuns(ids: readonly number[], rowBytes: number): RowRun[] {
  const runs: RowRun[] = [];
  let run: RowRun | undefined;
  for (const id of ids.toSorted((a, b) => a - b)) {
    const joins =
      run !== undefined &&
      (id - run.last - 1) * rowBytes <= JOIN_GAP_BYTES &&
      (id - run.first + 1) * rowBytes <= MAX_READ_BYTES;
    if (run !== undefined && joins) {
      run.last = id;
      run.ids.push(id);
    } else {
      run = { first: id, last: id, ids: [id] };
      runs.push(run);
    }
  }
  return runs;
}
