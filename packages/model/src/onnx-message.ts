import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/**
 * A protobuf message as a list of byte chunks, so that weights go into a file from where they are instead of being copied
 * once for every message around them.
 */
export class OnnxMessage {
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;

  get chunks(): readonly Uint8Array[] {
    return this.#chunks;
  }

  get bytes(): number {
    return this.#bytes;
  }

  int(field: number, value: number): this {
    return this.#push(new BinaryWriter().tag(field, WireType.Varint).int64(value).finish());
  }

  /** A packed list of int64. */
  ints(field: number, values: readonly number[]): this {
    const packed = new BinaryWriter();
    for (const value of values) packed.int64(value);
    return this.raw(field, packed.finish());
  }

  text(field: number, value: string): this {
    return this.raw(field, new TextEncoder().encode(value));
  }

  raw(field: number, value: Uint8Array): this {
    return this.#head(field, value.byteLength).#push(value);
  }

  message(field: number, value: OnnxMessage): this {
    this.#head(field, value.bytes);
    for (const chunk of value.chunks) this.#push(chunk);
    return this;
  }

  #head(field: number, bytes: number): this {
    return this.#push(new BinaryWriter().tag(field, WireType.LengthDelimited).uint32(bytes).finish());
  }

  #push(chunk: Uint8Array): this {
    this.#chunks.push(chunk);
    this.#bytes += chunk.byteLength;
    return this;
  }
}
