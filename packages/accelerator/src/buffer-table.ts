import type { SharedFloat32Array, TensorSpec } from "./device.ts";
import { rowLength, type Backend } from "./backend.ts";
import { MAX_BUCKETS } from "./spec-checks.ts";

/** More tensors than any steady caller has: past it, the table starts again rather than grow. */
const MAX_TENSORS = 8192;

/** The caller's side: a number for each buffer, given once, and taken back when the buffer is garbage. */
export class BufferNumbers {
  readonly #ids = new WeakMap<SharedArrayBuffer, number>();
  readonly #garbage: FinalizationRegistry<number>;
  readonly #onNew: (id: number, buffer: SharedArrayBuffer) => void;
  #next = 1;

  constructor(onNew: (id: number, buffer: SharedArrayBuffer) => void, onGarbage: (id: number) => void) {
    this.#onNew = onNew;
    this.#garbage = new FinalizationRegistry(onGarbage);
  }

  idOf(buffer: SharedArrayBuffer): number {
    const known = this.#ids.get(buffer);
    if (known !== undefined) return known;
    const id = this.#next++;
    this.#ids.set(buffer, id);
    this.#garbage.register(buffer, id);
    this.#onNew(id, buffer);
    return id;
  }
}

/** The thread's side: the buffers by number, and the backend's tensors over them. */
export class TensorTable<Tensor> {
  readonly #backend: Backend<Tensor>;
  readonly #buckets: readonly number[];
  readonly #specs: readonly TensorSpec[];
  readonly #buffers = new Map<number, { buffer: SharedArrayBuffer; tensors: Map<number, Tensor>[] }>();
  #size = 0;

  /** `buckets` may grow. */
  constructor(backend: Backend<Tensor>, buckets: readonly number[]) {
    this.#backend = backend;
    this.#buckets = buckets;
    this.#specs = [...backend.inputs, ...backend.outputs];
  }

  add(id: number, buffer: SharedArrayBuffer): void {
    this.#buffers.set(id, { buffer, tensors: this.#specs.map(() => new Map()) });
  }

  forget(id: number): void {
    for (const tensors of this.#buffers.get(id)?.tensors ?? []) this.#size -= tensors.size;
    this.#buffers.delete(id);
  }

  /** Tensor number `index` (inputs, then outputs) at float `offset` of buffer `id`, for the bucket of `bucketIndex`. */
  tensor(index: number, id: number, offset: number, bucketIndex: number): Tensor {
    const entry = this.#buffers.get(id);
    if (entry === undefined) throw new Error(`buffer ${id} was never announced`);
    const tensors = entry.tensors[index]!;
    const key = offset * MAX_BUCKETS + bucketIndex;
    const known = tensors.get(key);
    if (known !== undefined) return known;
    const bucket = this.#buckets[bucketIndex]!;
    const spec = this.#specs[index]!;
    const view: SharedFloat32Array = new Float32Array(entry.buffer, offset * 4, bucket * rowLength(spec));
    const tensor = this.#backend.wrap(spec, bucket, view);
    if (this.#size >= MAX_TENSORS) this.#clear();
    this.#size += 1;
    tensors.set(key, tensor);
    return tensor;
  }

  #clear(): void {
    for (const { tensors } of this.#buffers.values()) for (const byPlace of tensors) byPlace.clear();
    this.#size = 0;
  }
}
