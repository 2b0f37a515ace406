import { FRAME_HEADER_BYTES, FrameFlag, FrameType } from "./frame.ts";

const INITIAL_BYTES = 16_384;

/**
 * Bytes that wait for the next write of a connection. Frames are appended in place; the owner takes everything with one
 * {@link take} per wake-up, so that many frames cost one system call.
 */
export class FrameWriter {
  #buffer: Buffer = Buffer.allocUnsafeSlow(INITIAL_BYTES);
  #length = 0;

  /** Bytes that wait. */
  get length(): number {
    return this.#length;
  }

  /** All bytes that wait, as a view that stays valid until {@link reset} or {@link replace}. */
  take(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Forgets what waited and uses the same memory again: the bytes have been handed to the kernel. */
  reset(): void {
    this.#length = 0;
  }

  /** Forgets what waited and leaves its memory to whoever took it. */
  replace(): void {
    this.#buffer = Buffer.allocUnsafeSlow(INITIAL_BYTES);
    this.#length = 0;
  }

  header(payloadBytes: number, type: number, flags: number, streamId: number): void {
    this.#reserve(FRAME_HEADER_BYTES);
    const buffer = this.#buffer;
    const at = this.#length;
    buffer[at] = payloadBytes >>> 16;
    buffer[at + 1] = payloadBytes >>> 8;
    buffer[at + 2] = payloadBytes;
    buffer[at + 3] = type;
    buffer[at + 4] = flags;
    buffer[at + 5] = streamId >>> 24;
    buffer[at + 6] = streamId >>> 16;
    buffer[at + 7] = streamId >>> 8;
    buffer[at + 8] = streamId;
    this.#length = at + FRAME_HEADER_BYTES;
  }

  uint16(value: number): void {
    this.#reserve(2);
    this.#length = this.#buffer.writeUInt16BE(value, this.#length);
  }

  uint32(value: number): void {
    this.#reserve(4);
    this.#length = this.#buffer.writeUInt32BE(value, this.#length);
  }

  bytes(source: Uint8Array, start: number = 0, end: number = source.length): void {
    this.#reserve(end - start);
    this.#buffer.set(start === 0 && end === source.length ? source : source.subarray(start, end), this.#length);
    this.#length += end - start;
  }

  settings(pairs: readonly (readonly [id: number, value: number])[]): void {
    this.header(pairs.length * 6, FrameType.settings, 0, 0);
    for (const [id, value] of pairs) {
      this.uint16(id);
      this.uint32(value);
    }
  }

  settingsAck(): void {
    this.header(0, FrameType.settings, FrameFlag.ack, 0);
  }

  /** Answers a PING whose 8 bytes stand at `source[start]`. */
  pingAck(source: Uint8Array, start: number): void {
    this.header(8, FrameType.ping, FrameFlag.ack, 0);
    this.bytes(source, start, start + 8);
  }

  windowUpdate(streamId: number, increment: number): void {
    this.header(4, FrameType.windowUpdate, 0, streamId);
    this.uint32(increment);
  }

  rstStream(streamId: number, http2Code: number): void {
    this.header(4, FrameType.rstStream, 0, streamId);
    this.uint32(http2Code);
  }

  goAway(lastStreamId: number, http2Code: number): void {
    this.header(8, FrameType.goAway, 0, 0);
    this.uint32(lastStreamId);
    this.uint32(http2Code);
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}
