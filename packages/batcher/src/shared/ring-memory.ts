import { BatcherError } from "../batcher-error.ts";
import { unknownOptions } from "../unknown-options.ts";
import { NUMBERS_WORDS } from "./producer-numbers.ts";
import { HINTS_FLOATS } from "./ring-hints.ts";
import type { RingShape } from "./ring-protocol.ts";
import { controlWords, initialize, MAX_PRODUCERS, MAX_ROWS } from "./ring-protocol.ts";

/** The typed array of each element type that a field may have. */
export interface FieldArrays {
  readonly float64: Float64Array<SharedArrayBuffer>;
  readonly float32: Float32Array<SharedArrayBuffer>;
  readonly int32: Int32Array<SharedArrayBuffer>;
  readonly uint32: Uint32Array<SharedArrayBuffer>;
  readonly int16: Int16Array<SharedArrayBuffer>;
  readonly uint16: Uint16Array<SharedArrayBuffer>;
  readonly int8: Int8Array<SharedArrayBuffer>;
  readonly uint8: Uint8Array<SharedArrayBuffer>;
}

export type FieldType = keyof FieldArrays;

const ARRAYS: {
  readonly [Type in FieldType]: {
    readonly BYTES_PER_ELEMENT: number;
    new (buffer: SharedArrayBuffer, offset: number, length: number): FieldArrays[Type];
  };
} = {
  float64: Float64Array,
  float32: Float32Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
};

/** One field of an item: an element type and the dimensions of one row, `[]` for a single element. */
export interface FieldSpec {
  readonly type: FieldType;
  readonly shape: readonly number[];
}

/** The fields of an item by name. Producers write the inputs, the consumer the outputs. */
export interface RingSchema {
  readonly inputs: Readonly<Record<string, FieldSpec>>;
  readonly outputs: Readonly<Record<string, FieldSpec>>;
}

export interface SharedRingOptions<Schema extends RingSchema = RingSchema> {
  readonly schema: Schema;
  /** The largest batch, in rows. At most 32,767. */
  readonly maxBatchSize: number;
  /**
   * Rows of memory that each field has beyond `maxBatchSize`, for a device that reads and writes a full batch padded to the next
   * size that it takes. Default 0.
   */
  readonly paddingRows?: number;
  /**
   * Policy `off`: each item is a batch of its own, however small, and takes a slot; so there should be as many slots as items
   * are to be in the ring. Default false.
   */
  readonly itemsAlone?: boolean;
  /** Batches that may be filled, run and read at a time. A power of two from 2. Default 4. */
  readonly slots?: number;
  /**
   * Memory for so many more slots, in place of those in which a run may still write that has been given up: see `runTimeoutMs` of
   * `RingConsumer`. Default 0.
   */
  readonly spareSlots?: number;
  /** Producers at a time, at most 31, and those that are gone and were not buried. Default 8. */
  readonly maxProducers?: number;
}

const OPTION_NAMES = Object.keys({
  schema: true,
  maxBatchSize: true,
  paddingRows: true,
  itemsAlone: true,
  slots: true,
  spareSlots: true,
  maxProducers: true,
} satisfies Record<keyof SharedRingOptions, true>);

/** A slot's arrays: `maxBatchSize + paddingRows` rows of each field, row-major. */
export interface SlotViews<Schema extends RingSchema> {
  readonly inputs: { readonly [Name in keyof Schema["inputs"]]: FieldArrays[Schema["inputs"][Name]["type"]] };
  readonly outputs: { readonly [Name in keyof Schema["outputs"]]: FieldArrays[Schema["outputs"][Name]["type"]] };
}

/** What another thread needs to take part: send it with `postMessage` or in `workerData`. */
export interface SharedRing<Schema extends RingSchema = RingSchema> {
  readonly schema: Schema;
  readonly slots: number;
  readonly spareSlots: number;
  readonly maxProducers: number;
  readonly maxBatchSize: number;
  readonly paddingRows: number;
  readonly itemsAlone: boolean;
  readonly control: SharedArrayBuffer;
  readonly data: SharedArrayBuffer;
}

/** Fields start at a cache line, and so suit any vector load. */
const ALIGNMENT_BYTES = 64;
/** Room for the message of a failed batch. */
const MESSAGE_BYTES = 512;
const MOST_PADDING_ROWS = 2 ** 20;

/** Makes a ring: two buffers of shared memory, ready for one consumer and the producers. */
export function createSharedRing<const Schema extends RingSchema>(
  options: SharedRingOptions<Schema>,
): SharedRing<Schema> {
  const {
    schema,
    maxBatchSize,
    paddingRows = 0,
    itemsAlone = false,
    slots = 4,
    spareSlots = 0,
    maxProducers = 8,
  } = options;
  const problems = unknownOptions(options, OPTION_NAMES);
  if (!Number.isInteger(maxBatchSize) || maxBatchSize < 1 || maxBatchSize > MAX_ROWS) {
    problems.push(`maxBatchSize: expected a whole number from 1 to ${MAX_ROWS}, received ${String(maxBatchSize)}`);
  }
  if (!Number.isInteger(paddingRows) || paddingRows < 0 || paddingRows > MOST_PADDING_ROWS) {
    problems.push(
      `paddingRows: expected a whole number from 0 to ${MOST_PADDING_ROWS}, received ${String(paddingRows)}`,
    );
  }
  if (!Number.isInteger(slots) || slots < 2 || slots > 1024 || (slots & (slots - 1)) !== 0) {
    problems.push(`slots: expected a power of two from 2 to 1024, received ${String(slots)}`);
  }
  if (!Number.isInteger(spareSlots) || spareSlots < 0 || spareSlots > 1024) {
    problems.push(`spareSlots: expected a whole number from 0 to 1024, received ${String(spareSlots)}`);
  }
  if (!Number.isInteger(maxProducers) || maxProducers < 1 || maxProducers > MAX_PRODUCERS) {
    problems.push(`maxProducers: expected a whole number from 1 to ${MAX_PRODUCERS}, received ${String(maxProducers)}`);
  }
  for (const [name, field] of [...Object.entries(schema.inputs), ...Object.entries(schema.outputs)]) {
    if (!Object.hasOwn(ARRAYS, field.type)) {
      problems.push(`${name}: expected a type of ${Object.keys(ARRAYS).join(" | ")}, received ${field.type}`);
    }
    if (!field.shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 1)) {
      problems.push(`${name}: expected a shape of whole numbers from 1, received [${field.shape.join(", ")}]`);
    }
  }
  if (problems.length > 0) {
    throw new BatcherError("invalid_options", `invalid ring options: ${problems.join("; ")}`);
  }
  const shape = shapeOf({ slots, maxProducers, maxBatchSize, itemsAlone });
  const control = new SharedArrayBuffer(hintsAt(shape) + HINTS_FLOATS * 8);
  initialize(new Int32Array(control), shape);
  memoriesOf(control, shape).forEach((_, slot, memories) => (memories[slot] = slot));
  const data = new SharedArrayBuffer((slots + spareSlots) * slotBytes(schema, maxBatchSize, paddingRows));
  return { schema, slots, spareSlots, maxProducers, maxBatchSize, paddingRows, itemsAlone, control, data };
}

/** The parts of a ring's control buffer, in cache lines of their own. */
export interface ControlViews {
  /** See ring-protocol.ts; its words come first. */
  readonly control: Int32Array<SharedArrayBuffer>;
  /** See producer-numbers.ts. */
  readonly numbers: Int32Array<SharedArrayBuffer>;
  /** Which of the memories each slot has. The consumer changes it, of a batch that it has not published. */
  readonly memories: Int32Array<SharedArrayBuffer>;
  /** See ring-hints.ts. */
  readonly hints: Float64Array<SharedArrayBuffer>;
}

export function mapControl(ring: SharedRing): ControlViews {
  const shape = shapeOf(ring);
  return {
    control: new Int32Array(ring.control),
    numbers: new Int32Array(ring.control, numbersAt(shape), NUMBERS_WORDS),
    memories: memoriesOf(ring.control, shape),
    hints: new Float64Array(ring.control, hintsAt(shape), HINTS_FLOATS),
  };
}

function numbersAt(shape: RingShape): number {
  return aligned(controlWords(shape) * Int32Array.BYTES_PER_ELEMENT);
}

function memoriesOf(control: SharedArrayBuffer, shape: RingShape): Int32Array<SharedArrayBuffer> {
  return new Int32Array(control, numbersAt(shape) + NUMBERS_WORDS * 4, shape.slots);
}

function hintsAt(shape: RingShape): number {
  return numbersAt(shape) + NUMBERS_WORDS * 4 + aligned(shape.slots * 4);
}

/** A slot's memory as one thread sees it. */
export interface SlotMemory<Schema extends RingSchema> {
  readonly views: SlotViews<Schema>;
  /** At the first row of each request its size; 0 elsewhere. */
  readonly sizes: Int32Array;
  /** At the first row of each request when it came, milliseconds since the epoch. */
  readonly arrivals: Float64Array;
  /** There its deadline, likewise, or Infinity. */
  readonly deadlines: Float64Array;
  /** Why the batch failed: a length in the first two bytes, then UTF-8. */
  readonly message: Uint8Array;
}

/** Where items are alone, the protocol's row is an item, and a slot has one: what comes finds no room beside it. */
export function shapeOf(ring: Pick<SharedRing, "slots" | "maxProducers" | "maxBatchSize" | "itemsAlone">): RingShape {
  return { slots: ring.slots, producers: ring.maxProducers, rows: ring.itemsAlone ? 1 : ring.maxBatchSize };
}

/** The memories of the slots, then the spare ones. */
export function mapMemories<Schema extends RingSchema>(ring: SharedRing<Schema>): SlotMemory<Schema>[] {
  const { schema, data, maxBatchSize, paddingRows } = ring;
  return Array.from({ length: ring.slots + ring.spareSlots }, (_, memory) => {
    let offset = memory * slotBytes(schema, maxBatchSize, paddingRows);
    const take = <View>(make: (offset: number) => View, bytes: number): View => {
      const view = make(offset);
      offset += aligned(bytes);
      return view;
    };
    const fields = (specs: Readonly<Record<string, FieldSpec>>): Record<string, unknown> =>
      Object.fromEntries(
        Object.entries(specs).map(([name, spec]) => {
          const length = (maxBatchSize + paddingRows) * elementsOf(spec);
          const View = ARRAYS[spec.type];
          return [name, take((at) => new View(data, at, length), length * View.BYTES_PER_ELEMENT)];
        }),
      );
    return {
      sizes: take((at) => new Int32Array(data, at, maxBatchSize), maxBatchSize * 4),
      arrivals: take((at) => new Float64Array(data, at, maxBatchSize), maxBatchSize * 8),
      deadlines: take((at) => new Float64Array(data, at, maxBatchSize), maxBatchSize * 8),
      message: take((at) => new Uint8Array(data, at, MESSAGE_BYTES), MESSAGE_BYTES),
      views: { inputs: fields(schema.inputs), outputs: fields(schema.outputs) } as unknown as SlotViews<Schema>,
    };
  });
}

/** The fields of each slot, for who prepares a ring's memory before it is used; then those of the spare ones. */
export function slotViews<Schema extends RingSchema>(ring: SharedRing<Schema>): SlotViews<Schema>[] {
  return mapMemories(ring).map(({ views }) => views);
}

function slotBytes(schema: RingSchema, maxBatchSize: number, paddingRows: number): number {
  const rows = maxBatchSize + paddingRows;
  let bytes = aligned(maxBatchSize * 4) + 2 * aligned(maxBatchSize * 8) + aligned(MESSAGE_BYTES);
  for (const spec of [...Object.values(schema.inputs), ...Object.values(schema.outputs)]) {
    bytes += aligned(rows * elementsOf(spec) * ARRAYS[spec.type].BYTES_PER_ELEMENT);
  }
  return bytes;
}

function elementsOf(spec: FieldSpec): number {
  return spec.shape.reduce((product, dimension) => product * dimension, 1);
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}

/** Kept: it is a getter that takes as long as reading the clock. */
const { timeOrigin } = performance;

/** Milliseconds since the epoch, with a fraction, on a clock that all threads share and that does not jump. */
export function sharedNowMs(): number {
  return timeOrigin + performance.now();
}

export function writeMessage(into: Uint8Array, text: string): void {
  // TextEncoder may refuse to write into shared memory.
  const bytes = new TextEncoder().encode(text).subarray(0, into.length - 2);
  into[0] = bytes.length & 0xff;
  into[1] = bytes.length >>> 8;
  into.set(bytes, 2);
}

export function readMessage(from: Uint8Array): string {
  const length = (from[0] as number) | ((from[1] as number) << 8);
  return new TextDecoder().decode(from.slice(2, 2 + length));
}
