import type { PredictRequest } from "@dlrm/proto";
import {
  type DataRanges,
  type Dimension,
  InputCollector,
  MAX_KEPT_DIMENSIONS,
  type ScoringRequest,
} from "./input-collector.ts";
import type { InputPlan, ModelPlan } from "./model-plan.ts";
import { ServerError } from "./server-error.ts";
import { LENGTH_DELIMITED, VARINT, WireReader } from "./wire-reader.ts";

/** What decoding asks of a model. */
export interface DecodableModel {
  readonly plan: ModelPlan;
  readonly maxExamplesPerRequest: number;
}

/** Finds the model that a request names; throws `not_found`. Empty strings are the server's choice. */
export type ResolveModel<Model extends DecodableModel> = (name: string, version: string) => Model;

/** A decoded request and the model it is for. */
export interface ResolvedRequest<Model extends DecodableModel> {
  readonly model: Model;
  readonly request: ScoringRequest;
}

const MODEL_FIELD = 1;
const INPUTS_FIELD = 2;
const VERSION_FIELD = 3;
const ENTRY_KEY_FIELD = 1;
const ENTRY_VALUE_FIELD = 2;
const DATA_TYPE_FIELD = 1;
const SHAPE_FIELD = 2;
const DATA_FIELD = 3;

/** No model has more inputs: a message with more is refused before it is looked at closely. */
const MAX_INPUTS = 65_536;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Decodes a `dlrm.serving.v1.PredictRequest` from its wire bytes straight into the engine's arrays, with no message
 * object a tensor. The message is `bytes[start, end)`. The model may stand after the inputs, so that the first pass only notes
 * where each input is.
 */
export function decodePredictRequest<Model extends DecodableModel>(
  bytes: Uint8Array,
  resolve: ResolveModel<Model>,
  start = 0,
  end: number = bytes.length,
): ResolvedRequest<Model> {
  const reader = new WireReader(bytes, start, end);
  let modelName = "";
  let version = "";
  const entries: number[] = [];
  for (let field = reader.next(end); field !== 0; field = reader.next(end)) {
    switch (field) {
      case MODEL_FIELD:
        modelName = readString(reader, end);
        break;
      case VERSION_FIELD:
        version = readString(reader, end);
        break;
      case INPUTS_FIELD: {
        const entryEnd = reader.lengthDelimited(end);
        if (entries.length === 2 * MAX_INPUTS) throw tooManyInputs();
        entries.push(reader.position, entryEnd);
        reader.position = entryEnd;
        break;
      }
      default:
        reader.skip(end);
    }
  }
  const model = resolve(modelName, version);
  const collector = new InputCollector(model.plan, model.maxExamplesPerRequest);
  const { inputs } = model.plan;
  // Fewer entries with one of them twice leave an input out, and are refused either way.
  const superseded = entries.length > 2 * inputs.length ? supersededEntries(reader, entries, collector) : undefined;
  let expected = 0;
  for (let index = 0; index < entries.length; index += 2) {
    if (superseded?.has(index) === true) continue;
    reader.position = entries[index] as number;
    // Callers mostly write inputs in the model's order: then a name is compared, not decoded and looked up.
    expected = readEntry(reader, entries[index + 1] as number, collector, inputs[expected]) + 1;
  }
  const request = collector.finish();
  last.ranges = collector.ranges;
  last.modelName = modelName;
  last.version = version;
  return { model, request };
}

/** How the last message was decoded that `decodePredictRequest` returned from. */
export interface DecodingNote {
  readonly ranges: DataRanges | undefined;
  readonly modelName: string;
  readonly version: string;
}

const last: { -readonly [Name in keyof DecodingNote]: DecodingNote[Name] } = {
  ranges: undefined,
  modelName: "",
  version: "",
};

export function noteDecoding(): DecodingNote {
  return last;
}

/** The same for a message that was parsed already, which is how JSON comes. */
export function decodePredictMessage<Model extends DecodableModel>(
  message: PredictRequest,
  resolve: ResolveModel<Model>,
): ResolvedRequest<Model> {
  const model = resolve(message.model, message.version);
  const collector = new InputCollector(model.plan, model.maxExamplesPerRequest);
  for (const [name, { dataType, shape, data }] of Object.entries(message.inputs)) {
    collector.add(
      collector.input(name),
      dataType,
      shape.slice(0, MAX_KEPT_DIMENSIONS).map(exactNumber),
      data,
      0,
      data.length,
    );
  }
  return { model, request: collector.finish() };
}

function tooManyInputs(): ServerError {
  return new ServerError("invalid_argument", `expected at most ${MAX_INPUTS} inputs, got more`);
}

function exactNumber(value: bigint): Dimension {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** Entries behind which another one of the same input comes: of entries with one key the last one counts. */
function supersededEntries(reader: WireReader, entries: readonly number[], collector: InputCollector): Set<number> {
  const superseded = new Set<number>();
  const lastOf = new Map<number, number>();
  for (let index = 0; index < entries.length; index += 2) {
    reader.position = entries[index] as number;
    const input = readEntry(reader, entries[index + 1] as number, collector, undefined, false);
    const earlier = lastOf.get(input);
    if (earlier !== undefined) superseded.add(earlier);
    lastOf.set(input, index);
  }
  return superseded;
}

/** Reads the entry of one input, probably `expected`, and adds what it counts for; returns the input's position in the plan. */
function readEntry(
  reader: WireReader,
  end: number,
  collector: InputCollector,
  expected: InputPlan | undefined,
  counts = true,
): number {
  let input: InputPlan | undefined;
  let dataType = 0;
  let dataStart = 0;
  let dataEnd = 0;
  const dimensions: Dimension[] = [];
  for (let field = reader.next(end); field !== 0; field = reader.next(end)) {
    if (field === ENTRY_KEY_FIELD) input = readName(reader, end, expected) ?? collector.input(readString(reader, end));
    else if (field === ENTRY_VALUE_FIELD) {
      const bufferEnd = reader.lengthDelimited(end);
      for (let inner = reader.next(bufferEnd); inner !== 0; inner = reader.next(bufferEnd)) {
        switch (inner) {
          case DATA_TYPE_FIELD:
            expectVarint(reader);
            dataType = Number(reader.int64(bufferEnd));
            break;
          case SHAPE_FIELD:
            readDimensions(reader, bufferEnd, dimensions);
            break;
          case DATA_FIELD:
            dataEnd = reader.lengthDelimited(bufferEnd);
            dataStart = reader.position;
            reader.position = dataEnd;
            break;
          default:
            reader.skip(bufferEnd);
        }
      }
    } else reader.skip(end);
  }
  input ??= collector.input("");
  if (counts) collector.add(input, dataType, dimensions, reader.bytes, dataStart, dataEnd);
  return input.index;
}

/** Steps over a name and returns `expected` if it is that input's; else leaves it to be read. */
function readName(reader: WireReader, end: number, expected: InputPlan | undefined): InputPlan | undefined {
  if (expected === undefined) return undefined;
  const { bytes, position, wireType } = reader;
  const { nameBytes } = expected;
  const length = nameBytes.length;
  // A name of up to 127 bytes has a length of one byte.
  if (wireType !== LENGTH_DELIMITED || length > 0x7f || bytes[position] !== length || position + 1 + length > end) {
    return undefined;
  }
  for (let index = 0; index < length; index++) {
    if (bytes[position + 1 + index] !== nameBytes[index]) return undefined;
  }
  reader.position = position + 1 + length;
  return expected;
}

/** A repeated int64, packed or not. */
function readDimensions(reader: WireReader, end: number, dimensions: Dimension[]): void {
  if (reader.wireType === LENGTH_DELIMITED) {
    const packedEnd = reader.lengthDelimited(end);
    while (reader.position < packedEnd) keep(dimensions, reader.int64(packedEnd));
    return;
  }
  expectVarint(reader);
  keep(dimensions, reader.int64(end));
}

function keep(dimensions: Dimension[], dimension: Dimension): void {
  if (dimensions.length < MAX_KEPT_DIMENSIONS) dimensions.push(dimension);
}

function expectVarint(reader: WireReader): void {
  if (reader.wireType !== VARINT) {
    throw reader.malformed(`field ${reader.field} with wire type ${reader.wireType}, expected ${VARINT}`);
  }
}

function readString(reader: WireReader, end: number): string {
  const stringEnd = reader.lengthDelimited(end);
  const start = reader.position;
  reader.position = stringEnd;
  try {
    return utf8.decode(reader.bytes.subarray(start, stringEnd));
  } catch (cause) {
    throw new ServerError("invalid_argument", `malformed protobuf message: field ${reader.field} is not UTF-8`, {
      cause,
    });
  }
}
