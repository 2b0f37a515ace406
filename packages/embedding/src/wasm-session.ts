import { EmbeddingError } from "./embedding-error.ts";
import type { KernelPlan, KernelSession, KernelUpdate } from "./kernel.ts";
import { loadTables } from "./load-tables.ts";
import type { LoadOptions, LoadTarget } from "./load-tables.ts";
import type { FeatureLayout, PlanLayout } from "./plan-layout.ts";
import { OUT_OF_VOCABULARY, resolveRow } from "./table.ts";
import type { TableInfo, TableSource } from "./table.ts";
import { UpdateGate } from "./update-gate.ts";
import { instantiateKernel } from "./wasm-kernel.ts";
import type { WasmKernel } from "./wasm-kernel.ts";
import { PAGE_BYTES, allocateMemories, placeTables } from "./wasm-memory.ts";
import type { WasmPart, WasmPlacement } from "./wasm-memory.ts";
import { requireWebAssembly } from "./webassembly.ts";
import type { WasmMemory } from "./webassembly.ts";

/** What another thread needs. */
export interface WasmHandle {
  readonly memories: readonly WasmMemory[];
  readonly placement: WasmPlacement;
  /** The gate of updates. */
  readonly gate: SharedArrayBuffer;
}

/** Loads tables into shared WebAssembly memories. */
export async function openWasmSession(
  tables: readonly TableSource[],
  options: LoadOptions,
  maxMemoryBytes?: number,
): Promise<KernelSession> {
  const placement = placeTables(tables, maxMemoryBytes);
  let memories: readonly WasmMemory[];
  try {
    memories = allocateMemories(placement);
  } catch (error) {
    throw EmbeddingError.from(error, "io", "cannot allocate WebAssembly memories for the tables");
  }
  const targets = tables.flatMap((table, at) =>
    (placement.tables[at] ?? []).map((part): LoadTarget => {
      const { buffer } = memories[part.memory] as WasmMemory;
      const firstByte = part.firstRow * table.rowBytes;
      return { table, firstByte, bytes: new Uint8Array(buffer, part.byteOffset, part.rows * table.rowBytes) };
    }),
  );
  await loadTables(targets, options);
  return attachWasmSession(tables, { memories, placement, gate: new UpdateGate().buffer });
}

/** The same tables in another thread. */
export function attachWasmSession(tables: readonly TableInfo[], handle: WasmHandle): KernelSession {
  const scratch = new (requireWebAssembly().Memory)({ initial: 1 });
  const kernels = handle.memories.map((memory) => instantiateKernel(memory, scratch));
  const gate = new UpdateGate(handle.gate);
  return {
    name: "wasm simd128",
    handle,
    createPlan: (layout) => gate.guard(new WasmPlan(layout, handle.placement, kernels, scratch)),
    update: (updates) =>
      gate.update(() => {
        for (const update of updates) writeRows(tables[update.table] as TableInfo, handle, update);
      }),
    close: () => {},
  };
}

/** Puts rows in their place, which may be in several memories. */
function writeRows({ rowBytes }: TableInfo, { memories, placement }: WasmHandle, update: KernelUpdate): void {
  const { table, firstRow, bytes } = update;
  const endRow = firstRow + bytes.byteLength / rowBytes;
  for (const part of placement.tables[table] ?? []) {
    const from = Math.max(firstRow, part.firstRow);
    const to = Math.min(endRow, part.firstRow + part.rows);
    if (from >= to) continue;
    const rows = bytes.subarray((from - firstRow) * rowBytes, (to - firstRow) * rowBytes);
    const { buffer } = memories[part.memory] as WasmMemory;
    new Uint8Array(buffer).set(rows, part.byteOffset + (from - part.firstRow) * rowBytes);
  }
}

/** Pooled vectors and addresses of a block must stay in the second level cache. */
const BLOCK_BYTES = 256 * 1024;

/**
 * A plan over WebAssembly. The instances see only their memory of tables and the thread's scratch memory, so addresses go there, and
 * pooled vectors come from there, a block of examples at a time.
 */
class WasmPlan implements KernelPlan {
  readonly #layout: PlanLayout;
  readonly #placement: WasmPlacement;
  readonly #kernels: readonly WasmKernel[];
  readonly #scratch: WasmMemory;
  readonly #examplesPerBlock: number;
  readonly #weightsAt: number;
  readonly #endsAt: number;
  readonly #outputAt: number;
  readonly #scratchBytes: number;
  /** Ids of the whole call: what is checked must be what is used, and ids may be shared with other threads. */
  #ids = new Int32Array(0);
  #views: ScratchViews | undefined;

  constructor(layout: PlanLayout, placement: WasmPlacement, kernels: readonly WasmKernel[], scratch: WasmMemory) {
    this.#layout = layout;
    this.#placement = placement;
    this.#kernels = kernels;
    this.#scratch = scratch;
    const exampleBytes = 4 * (layout.outputWidth + 2 * layout.idsPerExample + layout.features.length);
    this.#examplesPerBlock = Math.max(1, Math.floor(BLOCK_BYTES / Math.max(1, exampleBytes)));
    const examples = this.#examplesPerBlock;
    // Ragged bags need room for one address and one weight at least.
    this.#weightsAt = 4 * Math.max(1, examples * layout.idsPerExample);
    this.#endsAt = 2 * this.#weightsAt;
    this.#outputAt = Math.ceil((this.#endsAt + 4 * examples * layout.features.length) / 64) * 64;
    this.#scratchBytes = this.#outputAt + 4 * examples * layout.outputWidth;
  }

  findOutOfVocabulary(ids: Int32Array, batch: number): number {
    for (const { table, hotSize, hotBefore } of this.#layout.features) {
      if (table.outOfVocabulary.kind !== "error") continue;
      const { rows } = table;
      const end = batch * (hotBefore + hotSize);
      for (let i = batch * hotBefore; i < end; i++) {
        if ((ids[i] as number) >>> 0 >= rows) return i;
      }
    }
    return -1;
  }

  gather(ids: Int32Array, batch: number, output: Float32Array, outputRow: number, weights?: Float32Array): number {
    const own = this.#copyIds(ids, batch);
    const refused = this.findOutOfVocabulary(own, batch);
    if (refused >= 0) return refused;
    const views = this.#scratchViews();
    const { outputWidth } = this.#layout;
    for (let from = 0; from < batch; from += this.#examplesPerBlock) {
      const examples = Math.min(this.#examplesPerBlock, batch - from);
      for (const [at, feature] of this.#layout.features.entries())
        this.#poolFeature(views, feature, at, batch, from, examples, weights);
      output.set(views.outputOf(examples * outputWidth), (outputRow + from) * outputWidth);
    }
    return -1;
  }

  gatherRagged(
    ids: Int32Array,
    lengths: Int32Array,
    batch: number,
    output: Float32Array,
    outputRow: number,
    weights?: Float32Array,
  ): number {
    const own = ids.slice();
    const ownLengths = lengths.slice(0, this.#layout.features.length * batch);
    const refused = findInRagged(this.#layout, own, ownLengths, batch);
    if (refused >= 0) return refused;
    const views = this.#scratchViews();
    const { outputWidth, features } = this.#layout;
    const cursors: number[] = [];
    let start = 0;
    for (const f of features.keys()) {
      cursors.push(start);
      for (let b = 0; b < batch; b++) start += ownLengths[f * batch + b] as number;
    }
    for (let b = 0; b < batch; b++) {
      for (const [f, feature] of features.entries()) {
        const first = cursors[f] as number;
        const end = first + (ownLengths[f * batch + b] as number);
        cursors[f] = end;
        this.#poolBag(views, feature, { ids: own, weights, first, end }, 0, this.#outputAt + 4 * feature.column);
      }
      output.set(views.outputOf(outputWidth), (outputRow + b) * outputWidth);
    }
    return -1;
  }

  #poolFeature(
    views: ScratchViews,
    feature: FeatureLayout,
    at: number,
    batch: number,
    from: number,
    examples: number,
    weights: Float32Array | undefined,
  ): void {
    const parts = this.#placement.tables[feature.tableIndex] as readonly WasmPart[];
    const place: FeaturePlace = {
      feature,
      first: batch * feature.hotBefore + from * feature.hotSize,
      examples,
      weights,
      addressesAt: 4 * this.#examplesPerBlock * feature.hotBefore,
      weightsAt: this.#weightsAt + 4 * this.#examplesPerBlock * feature.hotBefore,
      endsAt: this.#endsAt + 4 * this.#examplesPerBlock * at,
      outputAt: this.#outputAt + 4 * feature.column,
    };
    if (parts.length > 1) {
      this.#poolSplitFeature(views, place);
      return;
    }
    const part = parts[0] as WasmPart;
    resolveAddresses(views, this.#ids, part, place);
    const { table, pooling } = feature;
    const kernel = this.#kernels[part.memory] as WasmKernel;
    const stride = this.#layout.outputWidth * 4;
    const bags = weights === undefined ? kernel.bags : kernel.weightedBags;
    bags[table.dtype](
      place.addressesAt,
      place.endsAt,
      examples,
      place.outputAt,
      stride,
      table.dim,
      pooling === "mean" ? 1 : 0,
      place.weightsAt,
    );
  }

  /** Rows are in several memories, so bags are pooled one by one. */
  #poolSplitFeature(views: ScratchViews, place: FeaturePlace): void {
    const { feature, weights, examples, addressesAt, outputAt } = place;
    for (let b = 0; b < examples; b++) {
      const first = place.first + b * feature.hotSize;
      const bag = { ids: this.#ids, weights, first, end: first + feature.hotSize };
      this.#poolBag(views, feature, bag, addressesAt, outputAt + b * this.#layout.outputWidth * 4);
    }
  }

  /** Adds the rows of one bag one by one, each by its memory's instance, in the order of ids. */
  #poolBag(views: ScratchViews, feature: FeatureLayout, bag: Bag, addressAt: number, outputAt: number): void {
    const { ids, weights, first, end } = bag;
    const { table, tableIndex, pooling } = feature;
    const parts = this.#placement.tables[tableIndex] as readonly WasmPart[];
    const rowsOfPart = (parts[0] as WasmPart).rows;
    let count = 0;
    let shift = -0;
    for (let i = first; i < end; i++) {
      const row = resolveRow(table, ids[i] as number);
      if (row < 0) continue;
      const part = parts[Math.floor(row / rowsOfPart)] as WasmPart;
      views.words[addressAt >> 2] = part.byteOffset + (row - part.firstRow) * table.rowBytes;
      const kernel = this.#kernels[part.memory] as WasmKernel;
      const add = weights === undefined ? kernel.add : kernel.weightedAdd;
      if (weights !== undefined) views.floats[this.#weightsAt >> 2] = weights[i] as number;
      shift = add[table.dtype](addressAt, 1, outputAt, table.dim, count === 0 ? 1 : 0, shift, this.#weightsAt);
      count++;
    }
    if (count === 0) views.floats.fill(0, outputAt >> 2, (outputAt >> 2) + table.dim);
    else this.#kernels[0]?.finish(outputAt, table.dim, shift, pooling === "mean" ? count : 1);
  }

  #copyIds(ids: Int32Array, batch: number): Int32Array {
    const count = batch * this.#layout.idsPerExample;
    if (this.#ids.length < count) this.#ids = new Int32Array(count);
    const own = this.#ids;
    if (ids.length === count) own.set(ids);
    else for (let i = 0; i < count; i++) own[i] = ids[i] as number;
    return own;
  }

  #scratchViews(): ScratchViews {
    const missing = this.#scratchBytes - this.#scratch.buffer.byteLength;
    if (missing > 0) this.#scratch.grow(Math.ceil(missing / PAGE_BYTES));
    // Growing, by any plan of this session, makes a new buffer.
    if (this.#views?.buffer !== this.#scratch.buffer)
      this.#views = new ScratchViews(this.#scratch.buffer, this.#outputAt);
    return this.#views;
  }
}

/** Ids `first` … `end - 1`, and their weights if there are any. */
interface Bag {
  readonly ids: Int32Array;
  readonly weights: Float32Array | undefined;
  readonly first: number;
  readonly end: number;
}

/** Where a feature's ids, addresses, weights, ends and pooled vectors are. */
interface FeaturePlace {
  readonly feature: FeatureLayout;
  /** One for each id, if there are any. */
  readonly weights: Float32Array | undefined;
  /** Index of the block's first id. */
  readonly first: number;
  readonly examples: number;
  readonly addressesAt: number;
  readonly weightsAt: number;
  readonly endsAt: number;
  readonly outputAt: number;
}

/** The scratch memory, as JavaScript sees it. */
class ScratchViews {
  readonly buffer: ArrayBufferLike;
  readonly words: Uint32Array;
  readonly floats: Float32Array;
  readonly #outputAt: number;
  readonly #outputs = new Map<number, Float32Array>();

  constructor(buffer: ArrayBufferLike, outputAt: number) {
    this.buffer = buffer;
    this.words = new Uint32Array(buffer);
    this.floats = new Float32Array(buffer);
    this.#outputAt = outputAt;
  }

  /** The first `length` elements of pooled vectors; the view is kept, as a new one costs more than a small copy. */
  outputOf(length: number): Float32Array {
    let view = this.#outputs.get(length);
    if (view === undefined) {
      view = new Float32Array(this.buffer, this.#outputAt, length);
      this.#outputs.set(length, view);
    }
    return view;
  }
}

/** Index of the first id that is refused. */
function findInRagged(layout: PlanLayout, ids: Int32Array, lengths: Int32Array, batch: number): number {
  let i = 0;
  for (const [f, { table }] of layout.features.entries()) {
    let end = i;
    for (let b = 0; b < batch; b++) end += lengths[f * batch + b] as number;
    for (; i < end; i++) {
      if (resolveRow(table, ids[i] as number) === OUT_OF_VOCABULARY) return i;
    }
  }
  return -1;
}

/** Writes the addresses of the rows of a feature's bags, their weights, and where each bag ends. */
function resolveAddresses(views: ScratchViews, ids: Int32Array, part: WasmPart, place: FeaturePlace): void {
  const { feature, first, examples, weights } = place;
  const { table, hotSize } = feature;
  const { rows, rowBytes } = table;
  const { words, floats } = views;
  const weightsAt = place.weightsAt >> 2;
  const addresses = place.addressesAt >> 2;
  const ends = place.endsAt >> 2;
  let count = 0;
  let i = first;
  for (let b = 0; b < examples; b++) {
    for (const end = i + hotSize; i < end; i++) {
      const id = ids[i] as number;
      const row = id >>> 0 < rows ? id : resolveRow(table, id);
      if (row >= 0) {
        if (weights !== undefined) floats[weightsAt + count] = weights[i] as number;
        words[addresses + count++] = part.byteOffset + row * rowBytes;
      } else if (row === OUT_OF_VOCABULARY) throw new RangeError(`id ${id} was not checked`);
    }
    words[ends + b] = count;
  }
}
