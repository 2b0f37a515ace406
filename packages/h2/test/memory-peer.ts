import { Duplex } from "node:stream";
import { encodeHeaderBlock, type HeaderField } from "../src/hpack-encoder.ts";
import type { Http2Connection } from "../src/connection.ts";

/** A frame's octets (RFC 9113, section 4.1), of any type, right or wrong. */
export function frame(type: number, flags: number, streamId: number, payload: Uint8Array = new Uint8Array()): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

export function uint32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value >>> 0, index * 4);
  return bytes;
}

export function settings(...entries: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(entries.length * 6);
  for (const [index, [id, value]] of entries.entries()) {
    payload.writeUInt16BE(id, index * 6);
    payload.writeUInt32BE(value, index * 6 + 2);
  }
  return frame(4, 0, 0, payload);
}

export const PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
export const SETTINGS_ACK: Buffer = frame(4, 1, 0);
export const END_STREAM = 1;
export const END_HEADERS = 4;
export const PADDED = 8;

export const requestFields: readonly HeaderField[] = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "a"],
];
export const request: Buffer = encodeHeaderBlock(requestFields);

export function headers(streamId: number, flags: number, block: Uint8Array = request): Buffer {
  return frame(1, flags | END_HEADERS, streamId, block);
}

export function data(streamId: number, flags: number, bytes: Uint8Array = new Uint8Array()): Buffer {
  return frame(0, flags, streamId, bytes);
}

export function windowUpdate(streamId: number, increment: number): Buffer {
  return frame(8, 0, streamId, uint32(increment));
}

export function reset(streamId: number, errorCode: number): Buffer {
  return frame(3, 0, streamId, uint32(errorCode));
}

export interface Received {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** The frames that octets hold, without a client's preface and without the last one if it is cut off. */
export function framesIn(bytes: Buffer): Received[] {
  const frames: Received[] = [];
  let at = bytes.subarray(0, PREFACE.length).equals(PREFACE) ? PREFACE.length : 0;
  while (at + 9 <= bytes.length) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    if (end > bytes.length) break;
    frames.push({
      type: bytes[at + 3] as number,
      flags: bytes[at + 4] as number,
      streamId: bytes.readUInt32BE(at + 5),
      payload: bytes.subarray(at + 9, end),
    });
    at = end;
  }
  return frames;
}

/** A transport of which a test sees what is written, and decides whether it is taken. */
export class MemorySocket extends Duplex {
  private readonly pieces: Buffer[] = [];
  private pending: (() => void) | undefined = undefined;
  /** False while the peer reads nothing. */
  taking = true;

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    // A reference, like a transport that hands it on: whoever reuses the buffer spoils it.
    this.pieces.push(chunk);
    if (this.taking) done();
    else this.pending = done;
  }

  /** The peer reads again. */
  readAgain(): void {
    this.taking = true;
    const { pending } = this;
    this.pending = undefined;
    pending?.();
  }

  get written(): Buffer {
    return Buffer.concat(this.pieces);
  }

  get frames(): Received[] {
    return framesIn(this.written);
  }
}

/** Drives one end of a connection by the octets of the other, step by step, with no network and no time. */
export class MemoryPeer<Connection extends Http2Connection> {
  readonly socket: MemorySocket = new MemorySocket();
  readonly connection: Connection;

  constructor(make: (socket: Duplex) => Connection) {
    this.connection = make(this.socket);
  }

  /** Hands octets over as one read of the socket, and returns the frames that are answered at once. */
  send(...pieces: readonly Uint8Array[]): Received[] {
    const before = this.socket.frames.length;
    this.connection.read(Buffer.concat(pieces));
    return this.socket.frames.slice(before);
  }

  get goaway(): { readonly lastStreamId: number; readonly errorCode: number; readonly message: string } | undefined {
    const found = this.socket.frames.findLast((each) => each.type === 7);
    return found === undefined
      ? undefined
      : {
          lastStreamId: found.payload.readUInt32BE(0),
          errorCode: found.payload.readUInt32BE(4),
          message: found.payload.toString("utf8", 8),
        };
  }

  /** Error codes of the RST_STREAM frames that a stream was sent. */
  resets(streamId: number): number[] {
    return this.socket.frames
      .filter((each) => each.type === 3 && each.streamId === streamId)
      .map((each) => each.payload.readUInt32BE(0));
  }

  /** Octets of DATA that a stream was sent. */
  dataOf(streamId: number): Buffer {
    return Buffer.concat(
      this.socket.frames.filter((each) => each.type === 0 && each.streamId === streamId).map((each) => each.payload),
    );
  }
}
