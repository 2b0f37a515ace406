import { copyBytes, type DataRanges } from "./input-collector.ts";
import {
  decodePredictRequest,
  type DecodableModel,
  noteDecoding,
  type ResolvedRequest,
  type ResolveModel,
} from "./predict-request.ts";

/** Layouts that are kept, by the message's length. */
const MAX_LAYOUTS = 64;
/** Messages over this, all layouts together, are not kept: learning them must not cost much memory. */
const MAX_LAYOUT_BYTES = 1024 * 1024;
/** Messages of a layout's length that are laid out otherwise, before theirs takes its place. */
const MISSES_BEFORE_RELEARNING = 16;
/** Up to so many elements are copied one by one. */
const FEW_ELEMENTS = 64;

/**
 * Where everything stands in a message, and all of it that is not tensor data. A message of the same length that has the same
 * bytes there means the same, but for the data.
 */
interface MessageLayout<Model extends DecodableModel> {
  /** What a message of this layout is decoded to. */
  resolved: ResolvedRequest<Model>;
  readonly modelName: string;
  readonly version: string;
  readonly message: Uint8Array;
  /** start, end, start, end, … of what is not data. */
  readonly fixed: Int32Array;
  /** start, elements, index in `ids`; … of each feature. */
  readonly ids: Int32Array;
  readonly denseStart: number;
  misses: number;
}

/**
 * Decodes requests as `decodePredictRequest` does, and remembers how they are laid out: callers send messages that differ in
 * their data only, for which comparing the rest with the last one is several times quicker than taking it apart.
 */
export class PredictDecoder<Model extends DecodableModel> {
  readonly #resolve: ResolveModel<Model>;
  readonly #layouts = new Map<number, MessageLayout<Model>>();
  #layoutBytes = 0;
  // A view of the buffer that the last message stood in: one read of a socket brings several messages.
  #buffer: ArrayBufferLike = new ArrayBuffer(0);
  #view: DataView = new DataView(this.#buffer);

  constructor(resolve: ResolveModel<Model>) {
    this.#resolve = resolve;
  }

  /** The request in `bytes[start, end)`; valid until the next one is decoded. Throws `ServerError`. */
  decode(bytes: Uint8Array, start = 0, end: number = bytes.length): ResolvedRequest<Model> {
    const layout = this.#layouts.get(end - start);
    if (layout !== undefined) {
      const known = this.#decodeKnown(layout, bytes, start);
      if (known !== undefined) return known;
    }
    const resolved = decodePredictRequest(bytes, this.#resolve, start, end);
    if (layout === undefined || ++layout.misses > MISSES_BEFORE_RELEARNING) this.#learn(resolved, bytes, start, end);
    return resolved;
  }

  /** Undefined if the message is laid out otherwise. */
  #decodeKnown(layout: MessageLayout<Model>, bytes: Uint8Array, start: number): ResolvedRequest<Model> | undefined {
    const { fixed, message, resolved } = layout;
    for (let range = 0; range < fixed.length; range += 2) {
      const end = fixed[range + 1] as number;
      for (let at = fixed[range] as number; at < end; at++) {
        if (bytes[start + at] !== message[at]) return undefined;
      }
    }
    const { model } = resolved;
    // What the names mean may have changed.
    if (this.#resolve(layout.modelName, layout.version) !== model) return undefined;
    const { buffer } = bytes;
    if (buffer !== this.#buffer) {
      this.#buffer = buffer;
      this.#view = new DataView(buffer);
    }
    const view = this.#view;
    const { request, dense, denseBytes, ids, idBytes } = model.plan.buffers.for(resolved.request.batch);
    const offset = bytes.byteOffset + start;
    const denseAt = offset + layout.denseStart;
    for (let index = 0; index < dense.length; index++) {
      const value = view.getFloat32(denseAt + index * 4, true);
      // Not finite: the collector says which it is.
      if (value - value !== 0) return undefined;
      if (dense.length <= FEW_ELEMENTS) dense[index] = value;
    }
    if (dense.length > FEW_ELEMENTS) {
      copyBytes(bytes, start + layout.denseStart, start + layout.denseStart + dense.length * 4, denseBytes, 0);
    }
    const features = layout.ids;
    for (let feature = 0; feature < features.length; feature += 3) {
      const dataStart = features[feature] as number;
      const count = features[feature + 1] as number;
      const to = features[feature + 2] as number;
      if (count <= FEW_ELEMENTS) {
        for (let index = 0; index < count; index++)
          ids[to + index] = view.getInt32(offset + dataStart + index * 4, true);
      } else copyBytes(bytes, start + dataStart, start + dataStart + count * 4, idBytes, to * 4);
    }
    layout.misses = 0;
    // The arrays are others if they were given up meanwhile.
    if (resolved.request !== request) layout.resolved = { model, request };
    return layout.resolved;
  }

  #learn(resolved: ResolvedRequest<Model>, bytes: Uint8Array, start: number, end: number): void {
    const { ranges, modelName, version } = noteDecoding();
    const length = end - start;
    if (ranges === undefined || length > MAX_LAYOUT_BYTES / 4) return;
    const old = this.#layouts.get(length);
    if (old !== undefined) this.#forget(length);
    if (this.#layouts.size === MAX_LAYOUTS || this.#layoutBytes + length > MAX_LAYOUT_BYTES) {
      this.#layouts.clear();
      this.#layoutBytes = 0;
    }
    const { model, request } = resolved;
    this.#layouts.set(length, {
      resolved,
      modelName,
      version,
      message: Uint8Array.prototype.slice.call(bytes, start, end),
      fixed: rangesBetween(ranges, start, length),
      ids: Int32Array.from(
        model.plan.inputs.flatMap(({ index, feature, idOffset }) =>
          feature < 0
            ? []
            : [
                (ranges.starts[index] as number) - start,
                ((ranges.ends[index] as number) - (ranges.starts[index] as number)) / 4,
                request.batch * idOffset,
              ],
        ),
      ),
      denseStart: (ranges.starts[0] as number) - start,
      misses: 0,
    });
    this.#layoutBytes += length;
  }

  #forget(length: number): void {
    this.#layouts.delete(length);
    this.#layoutBytes -= length;
  }
}

/** What is in the message and not in the ranges. */
function rangesBetween({ starts, ends }: DataRanges, start: number, length: number): Int32Array {
  const inOrder = [...starts.keys()].sort((a, b) => (starts[a] as number) - (starts[b] as number));
  const between: number[] = [];
  let from = 0;
  for (const index of inOrder) {
    between.push(from, (starts[index] as number) - start);
    from = (ends[index] as number) - start;
  }
  between.push(from, length);
  return Int32Array.from(between);
}
