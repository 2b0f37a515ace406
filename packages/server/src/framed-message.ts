import { createGunzip } from "node:zlib";
import { DECOMPRESSOR_BYTES, type HeldBody } from "./body-budget.ts";
import { ServerError } from "./server-error.ts";

export const FRAME_HEADER_BYTES = 5;
const COMPRESSED_FLAG = 1;

/**
 * Puts together the one message of a call from the chunks of its body, which is one frame: flags, length, message.
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 *
 * A message in one chunk is not copied. Everything wrong is a `ServerError`, as soon as it is seen.
 */
export class FramedMessage {
  readonly #maxMessageBytes: number;
  readonly #held: HeldBody;
  readonly #chunks: Uint8Array[] = [];
  #received = 0;
  /** As the frame's header says; -1 before that has come. */
  #messageBytes = -1;

  /** What is kept of the body is taken from `held`. */
  constructor(maxMessageBytes: number, held: HeldBody) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#held = held;
  }

  push(chunk: Uint8Array): void {
    this.#held.takePiece(chunk.length);
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    if (this.#messageBytes < 0) {
      if (this.#received < FRAME_HEADER_BYTES) return;
      this.#messageBytes = this.#declaredBytes();
      if (this.#messageBytes > this.#maxMessageBytes) {
        throw messageTooLarge(`${this.#messageBytes} bytes`, this.#maxMessageBytes);
      }
    }
    if (this.#received > FRAME_HEADER_BYTES + this.#messageBytes) {
      throw new ServerError(
        "unimplemented",
        `malformed request: expected one message, of ${this.#messageBytes} bytes as its frame says, got more bytes after it`,
      );
    }
  }

  /** The message, once the body has ended. `encoding` is what the headers say a compressed message is compressed with. */
  finish(encoding: string): Uint8Array | Promise<Uint8Array> {
    const messageBytes = this.#messageBytes;
    const received = this.#received;
    if (received === 0) throw new ServerError("unimplemented", "malformed request: expected one message, got none");
    if (messageBytes < 0 || received < FRAME_HEADER_BYTES + messageBytes) {
      const expected =
        messageBytes < 0 ? "a frame header of 5 bytes" : `a message of ${messageBytes} bytes in its frame`;
      const got = messageBytes < 0 ? received : received - FRAME_HEADER_BYTES;
      throw new ServerError("invalid_argument", `malformed request: expected ${expected}, got ${got} bytes`);
    }
    const framed = joinChunks(this.#chunks, received);
    const flags = framed[0] as number;
    const message = framed.subarray(FRAME_HEADER_BYTES);
    if (flags === 0) return message;
    if (flags !== COMPRESSED_FLAG) {
      throw new ServerError("invalid_argument", `malformed request: expected frame flags 0 or 1, got ${flags}`);
    }
    if (encoding !== "gzip") {
      throw new ServerError(
        "invalid_argument",
        "malformed request: the message is marked as compressed, but no header says how (expected gzip)",
      );
    }
    return message.length === 0 ? message : decompressGzip(message, this.#maxMessageBytes, this.#held);
  }

  /** Length from the header, which may stand across chunks. */
  #declaredBytes(): number {
    const first = this.#chunks[0] as Uint8Array;
    const header = first.length >= FRAME_HEADER_BYTES ? first : Buffer.concat(this.#chunks);
    return new DataView(header.buffer, header.byteOffset).getUint32(1);
  }
}

export function joinChunks(chunks: readonly Uint8Array[], byteCount: number): Uint8Array {
  return chunks.length === 1 ? (chunks[0] as Uint8Array) : Buffer.concat(chunks, byteCount);
}

/** Piece by piece, each taken from `held`: a small message may become a large one. */
export function decompressGzip(bytes: Uint8Array, maxMessageBytes: number, held: HeldBody): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    held.take(DECOMPRESSOR_BYTES);
    const gunzip = createGunzip();
    const pieces: Uint8Array[] = [];
    let received = 0;
    const fail = (error: unknown): void => {
      gunzip.destroy();
      held.give(DECOMPRESSOR_BYTES);
      reject(error);
    };
    gunzip.on("data", (piece: Buffer) => {
      received += piece.length;
      if (received > maxMessageBytes) {
        const got = `more than that after decompression (${bytes.length} bytes before)`;
        fail(messageTooLarge(got, maxMessageBytes));
        return;
      }
      try {
        held.takePiece(piece.length);
        pieces.push(piece);
      } catch (error) {
        fail(error);
      }
    });
    gunzip.once("end", () => {
      held.give(DECOMPRESSOR_BYTES);
      resolve(joinChunks(pieces, received));
    });
    gunzip.once("error", (error) => {
      const message = `malformed request: ${bytes.length} bytes are not gzip: ${error.message}`;
      fail(new ServerError("invalid_argument", message, { cause: error }));
    });
    gunzip.end(bytes);
  });
}

export function messageTooLarge(got: string, maxMessageBytes: number): ServerError {
  return new ServerError(
    "resource_exhausted",
    `the request message is over the limit of ${maxMessageBytes} bytes (--max-message-bytes): got ${got}`,
  );
}
