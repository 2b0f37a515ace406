import net from "node:net";
import type { Duplex } from "node:stream";
import tls from "node:tls";
import { FRAME_HEADER_BYTES, FrameType } from "./protocol.ts";

/** Most turns of a connection write no more than this. */
const SMALL_BUFFER_BYTES = 4 * 1024;
/** What a small one has no room for goes on in a large one: a request of 128 examples leaves in one write. */
const BUFFER_BYTES = 256 * 1024;
/** What is shorter is copied rather than given away with its buffer. */
const WORTH_A_BUFFER_BYTES = 64 * 1024;

/**
 * Buffers that no connection has anything in: an idle connection takes none. Many connections may be answered in one turn,
 * each with a buffer of its own until it ends; what had to be made anew each time would cost a full garbage collection
 * every 64 MiB.
 */
const spareSmallBuffers: Buffer[] = [];
const MAX_SPARE_SMALL_BUFFERS = 4096;
const spareBuffers: Buffer[] = [];
const MAX_SPARE_BUFFERS = 16;
const NO_BUFFER: Buffer = Buffer.alloc(0);

/**
 * What a connection writes, gathered so that one read of the socket, or one turn of the event loop, costs one write.
 *
 * Frames are laid into `buffer` in place. After a write that the kernel took whole (nothing left in the socket's queue) the
 * buffer is used again, by whoever needs one; else the socket owns it. Only a TCP or Unix socket is known to have
 * handed its octets to the kernel by then: TLS hardly ever has, and any other Duplex may pass the buffer itself on. Those
 * get a copy, which costs less than a new buffer unless there is much in it.
 */
export class Output {
  private readonly socket: Duplex;
  private readonly maxQueuedBytes: number;
  private readonly onFull: () => void;
  private readonly takesAtOnce: boolean;
  private buffer: Buffer = NO_BUFFER;
  private used = 0;
  /** Octets that were handed to the socket. */
  writtenBytes = 0;
  private scheduled = false;
  private held = false;
  private readonly flushLater: () => void;

  /** `onFull` is called after a write when more than `maxQueuedBytes` wait for the peer, and "drain" will tell the end of it. */
  constructor(socket: Duplex, maxQueuedBytes: number, onFull: () => void) {
    this.socket = socket;
    this.maxQueuedBytes = maxQueuedBytes;
    this.onFull = onFull;
    this.takesAtOnce = socket instanceof net.Socket && !(socket instanceof tls.TLSSocket);
    this.flushLater = () => {
      this.scheduled = false;
      if (!this.held) this.flush();
    };
  }

  /** Bytes that the peer has not taken yet. */
  get queuedBytes(): number {
    return this.used + this.socket.writableLength;
  }

  /** While held (during a read), nothing is written; `release` writes all at once. */
  hold(): void {
    this.held = true;
  }

  release(): void {
    this.held = false;
    this.flush();
  }

  /** Writes the 9 octets of a frame header (RFC 9113, section 4.1). */
  frameHeader(length: number, type: number, flags: number, streamId: number): void {
    this.reserve(FRAME_HEADER_BYTES);
    const { buffer } = this;
    let at = this.used;
    buffer[at++] = length >>> 16;
    buffer[at++] = (length >>> 8) & 0xff;
    buffer[at++] = length & 0xff;
    buffer[at++] = type;
    buffer[at++] = flags;
    buffer[at++] = streamId >>> 24;
    buffer[at++] = (streamId >>> 16) & 0xff;
    buffer[at++] = (streamId >>> 8) & 0xff;
    buffer[at++] = streamId & 0xff;
    this.used = at;
    this.schedule();
  }

  uint16(value: number): void {
    this.reserve(2);
    this.used = this.buffer.writeUInt16BE(value, this.used);
  }

  uint32(value: number): void {
    this.reserve(4);
    this.used = this.buffer.writeUInt32BE(value >>> 0, this.used);
  }

  octet(value: number): void {
    this.reserve(1);
    this.buffer[this.used++] = value;
  }

  /** Copies `source[start, end)` behind what is there; large pieces are handed to the socket as they are. */
  bytes(source: Uint8Array, start = 0, end: number = source.length): void {
    const length = end - start;
    if (length > BUFFER_BYTES / 2) {
      this.flush();
      this.write(Buffer.copyBytesFrom(source, start, length));
      return;
    }
    this.reserve(length);
    // A loop beats a call into native code for the few octets of a header block.
    if (length <= 32) {
      for (let at = start; at < end; at++) this.buffer[this.used++] = source[at] as number;
    } else {
      this.buffer.set(length === source.length ? source : source.subarray(start, end), this.used);
      this.used += length;
    }
  }

  windowUpdate(streamId: number, increment: number): void {
    this.frameHeader(4, FrameType.WINDOW_UPDATE, 0, streamId);
    this.uint32(increment);
  }

  resetStream(streamId: number, errorCode: number): void {
    this.frameHeader(4, FrameType.RST_STREAM, 0, streamId);
    this.uint32(errorCode);
  }

  flush(): void {
    const length = this.used;
    if (length === 0) return;
    const { buffer } = this;
    this.used = 0;
    this.buffer = NO_BUFFER;
    // A socket that is behind keeps what it is given: a peer that reads nothing must not hold a buffer for each small write.
    const isBehind = !this.takesAtOnce || this.socket.writableLength > 0;
    const isCopied = isBehind && length < WORTH_A_BUFFER_BYTES;
    this.write(isCopied ? Buffer.copyBytesFrom(buffer, 0, length) : buffer.subarray(0, length));
    const isFree = isCopied || (this.takesAtOnce && this.socket.writableLength === 0);
    if (isFree) release(buffer);
  }

  private write(bytes: Buffer): void {
    const { socket } = this;
    if (socket.destroyed || socket.writableEnded) return;
    this.writtenBytes += bytes.length;
    socket.write(bytes);
    if (socket.writableLength > this.maxQueuedBytes && socket.writableNeedDrain) this.onFull();
  }

  private reserve(bytes: number): void {
    const { buffer, used } = this;
    if (used + bytes <= buffer.length) return;
    if (used === 0 && bytes <= SMALL_BUFFER_BYTES) {
      this.buffer = spareSmallBuffers.pop() ?? Buffer.allocUnsafeSlow(SMALL_BUFFER_BYTES);
      return;
    }
    if (buffer.length === BUFFER_BYTES) this.flush();
    const larger = spareBuffers.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
    if (this.used > 0) {
      buffer.copy(larger, 0, 0, used);
      release(buffer);
    }
    this.buffer = larger;
  }

  private schedule(): void {
    if (this.held || this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(this.flushLater);
  }
}

function release(buffer: Buffer): void {
  const isSmall = buffer.length === SMALL_BUFFER_BYTES;
  const spare = isSmall ? spareSmallBuffers : spareBuffers;
  if (spare.length < (isSmall ? MAX_SPARE_SMALL_BUFFERS : MAX_SPARE_BUFFERS)) spare.push(buffer);
}
