import type { Http2Stream } from "../stream.ts";

/** Pieces that wait for a reader, beyond which the peer gets no more window. */
const HIGH_WATER_BYTES = 256 * 1024;
/** Shorter pieces that wait are copied together: each would cost more for itself than for its octets. */
const SMALL_PIECE_BYTES = 1024;
const SHARED_BUFFER_BYTES = 16 * 1024;

/** The body of a request as an async iterable, with back-pressure to the peer. For one reader. */
export class BodyReader implements AsyncIterable<Uint8Array> {
  private readonly stream: Http2Stream;
  private readonly pieces: Buffer[] = [];
  private waitingBytes = 0;
  /** Where the last of `pieces` stands, if it was copied; it may grow up to the end of it. */
  private shared: Buffer | undefined = undefined;
  private sharedBytes = 0;
  private ended = false;
  private closed = false;
  private expired = false;
  private error: Error | undefined = undefined;
  private wake: (() => void) | undefined = undefined;

  constructor(stream: Http2Stream) {
    this.stream = stream;
  }

  push(piece: Buffer): void {
    if (this.closed || this.expired) return;
    if (this.pieces.length > 0 && piece.length < SMALL_PIECE_BYTES) this.pushSmall(piece);
    else {
      this.pieces.push(piece);
      this.shared = undefined;
    }
    this.waitingBytes += piece.length;
    if (this.waitingBytes > HIGH_WATER_BYTES) this.stream.pause();
    this.wake?.();
  }

  private pushSmall(piece: Buffer): void {
    let { shared } = this;
    if (shared === undefined || this.sharedBytes + piece.length > shared.length) {
      shared = Buffer.allocUnsafeSlow(SHARED_BUFFER_BYTES);
      this.sharedBytes = 0;
      this.pieces.push(shared);
    }
    piece.copy(shared, this.sharedBytes);
    this.sharedBytes += piece.length;
    this.pieces[this.pieces.length - 1] = shared.subarray(0, this.sharedBytes);
    this.shared = shared;
  }

  end(): void {
    this.ended = true;
    this.wake?.();
  }

  fail(error: Error): void {
    this.error ??= error;
    this.wake?.();
  }

  /** Of what has not come whole nothing more is read: the reader gets the error next, though more pieces come. */
  expire(error: Error): void {
    if (this.ended) return;
    this.expired = true;
    this.drop();
    this.fail(error);
  }

  /** Nobody reads any more: what still comes is dropped. */
  close(): void {
    this.closed = true;
    this.drop();
    this.wake?.();
  }

  private drop(): void {
    this.pieces.length = 0;
    this.shared = undefined;
    this.waitingBytes = 0;
    this.stream.resume();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    while (!this.closed) {
      const piece = this.pieces.shift();
      if (piece !== undefined) {
        if (this.pieces.length === 0) this.shared = undefined;
        this.waitingBytes -= piece.length;
        if (this.waitingBytes <= HIGH_WATER_BYTES / 2) this.stream.resume();
        yield piece;
      } else if (this.error !== undefined) {
        throw this.error;
      } else if (this.ended) {
        return;
      } else {
        await new Promise<void>((resolve) => (this.wake = resolve));
        this.wake = undefined;
      }
    }
  }
}
