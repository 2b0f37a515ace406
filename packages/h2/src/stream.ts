import { allocateBody, bodyMemoryBytes, releaseBody } from "./body-buffers.ts";
import type { HeaderBlock } from "./header-block.ts";
import type { Http2Connection } from "./connection.ts";
import { ErrorCode } from "./protocol.ts";

/**
 * What a stream's owner is told. One object may serve any number of streams: what belongs to one stream goes into
 * `stream.context`. An error thrown by any of these resets the stream with INTERNAL_ERROR.
 */
export interface StreamHandler {
  /** Whether the body comes whole, in one call of `onBody`, or in pieces as it is read. */
  readonly body: "whole" | "pieces";
  /** Largest whole body, bytes; ignored for pieces. Beyond it `onBodyTooLarge` is called once, and the rest is dropped. */
  readonly maxBodyBytes?: number;
  /** A client's response header block; informational (1xx) blocks are not handed on. */
  onHeaders?(stream: Http2Stream, headers: HeaderBlock): void;
  /** Length of a whole body, if its first octets tell it, so that it is assembled in one piece. */
  expectedBytes?(stream: Http2Stream, first: Buffer): number | undefined;
  /**
   * The body is only lent: `onBody` or `onData` is done with it when it returns, and its memory is used again. False by
   * default.
   */
  readonly borrowsBody?: boolean;
  /** The whole body. The buffer is the receiver's to keep, unless `borrowsBody`. */
  onBody?(stream: Http2Stream, body: Buffer, trailers: HeaderBlock | undefined): void;
  /**
   * With `borrowsBody` instead of `onBody`, where there is one: the whole body is `bytes[start, end)`. That saves a view of
   * it, an object of 100 bytes.
   */
  onLentBody?(stream: Http2Stream, bytes: Buffer, start: number, end: number, trailers: HeaderBlock | undefined): void;
  /** Without it the stream is reset with ENHANCE_YOUR_CALM. */
  onBodyTooLarge?(stream: Http2Stream, atLeastBytes: number): void;
  /** A piece of the body. The buffer is the receiver's to keep, unless `borrowsBody`. */
  onData?(stream: Http2Stream, piece: Buffer): void;
  /** The peer has sent all that it will; called in both modes' order after the body, but only for pieces. */
  onEnd?(stream: Http2Stream, trailers: HeaderBlock | undefined): void;
  /** What was queued has been sent, after `sendData` had returned false. */
  onWritable?(stream: Http2Stream): void;
  /**
   * The stream ended before both sides had finished: reset by the peer or by us, or the connection was lost. A client that
   * resets with NO_ERROR cancels, and its code is CANCEL here.
   */
  onReset?(stream: Http2Stream, errorCode: number): void;
}

const EMPTY: Buffer = Buffer.alloc(0);

/** What waits for window: pieces in order, then the end. */
interface QueuedBody {
  readonly pieces: Buffer[];
  /** Of the pieces. */
  bytes: number;
  trailers: Buffer | undefined;
  ends: boolean;
}

/**
 * One request and its response (RFC 9113, section 5). Valid until both sides have ended or it is reset; what is sent after
 * that is dropped.
 */
export class Http2Stream {
  readonly id: number;
  readonly connection: Http2Connection;
  /** A server's: the request's header block. A client's: the response's, once it has come. */
  headers: HeaderBlock | undefined;
  handler: StreamHandler;
  /** The owner's own. */
  context: unknown = undefined;

  /** The peer has sent all that it will. */
  remoteEnded = false;
  /** We have sent all that we will. */
  localEnded = false;
  /** Both, or the stream was reset. */
  closed = false;
  /** Our header block has been sent. */
  headersSent = false;
  /** @internal What we may still send; negative after the peer has made its window smaller. */
  sendWindowBytes: number;
  /** @internal What the peer may still send. */
  receiveWindowBytes: number;
  /** @internal Octets received and not yet given back as window. */
  creditBytes = 0;
  /** @internal Octets received while paused, not given back to the connection's window. */
  heldBytes = 0;
  /** @internal Declared by content-length; undefined when it was not. */
  declaredBytes: number | undefined = undefined;
  /** @internal */ receivedBytes = 0;
  /** @internal What is being handed on is the last that the peer sends. */
  remoteEnding = false;
  /** @internal */ isPaused = false;
  /** The body so far, from `bodyStart` on: memory of its own, or the read that it came in whole. */
  private assembled: Buffer | undefined = undefined;
  private bodyStart = 0;
  /** What the connection has been charged for `assembled`. */
  private bufferedBytes = 0;
  private tooLarge = false;

  /** There iff something waits for window. */
  private queued: QueuedBody | undefined = undefined;

  constructor(
    connection: Http2Connection,
    id: number,
    handler: StreamHandler,
    sendWindowBytes: number,
    receiveWindowBytes: number,
  ) {
    this.connection = connection;
    this.id = id;
    this.handler = handler;
    this.sendWindowBytes = sendWindowBytes;
    this.receiveWindowBytes = receiveWindowBytes;
  }

  /**
   * Sends a whole response, or what is left of one: an encoded header block, a body, and an encoded trailer block. The
   * stream's side of ours is ended by the last of them. All are copied, or sent, before this returns. On a server, the
   * client is then told that what it has not sent of the request is not needed (RST_STREAM, NO_ERROR).
   */
  respond(head: Uint8Array, body?: Uint8Array, trailers?: Uint8Array): void {
    const hasBody = body !== undefined && body.length > 0;
    this.sendHeaders(head, !hasBody && trailers === undefined);
    if (hasBody) this.sendData(body, trailers === undefined);
    if (trailers !== undefined) this.sendTrailers(trailers);
  }

  /** Sends an encoded header block. */
  sendHeaders(block: Uint8Array, endStream = false): void {
    if (this.localEnded) return;
    this.headersSent = true;
    this.connection.writeHeaders(this.id, block, endStream);
    if (endStream) this.endLocal();
  }

  /**
   * Sends a piece of the body, as far as the peer's windows allow, and queues a copy of the rest. Returns false when
   * something is queued: wait for `onWritable` before sending more.
   */
  sendData(piece: Uint8Array, endStream = false): boolean {
    if (this.localEnded || this.queued?.ends === true) return true;
    if (this.queued === undefined) {
      const sent = this.connection.writeData(this, piece, endStream);
      if (sent === piece.length) {
        if (endStream) this.endLocal();
        return true;
      }
      if (!this.connection.mayQueue()) {
        this.reset(ErrorCode.ENHANCE_YOUR_CALM);
        return true;
      }
      this.queued = { pieces: [], bytes: 0, trailers: undefined, ends: endStream };
      this.enqueue(this.queued, Buffer.copyBytesFrom(piece, sent));
      this.connection.sendWindow.wait(this);
    } else {
      this.queued.ends = endStream;
      this.enqueue(this.queued, Buffer.copyBytesFrom(piece));
    }
    return false;
  }

  /** Sends an encoded trailer block after all data, which ends our side. */
  sendTrailers(block: Uint8Array): void {
    const { queued } = this;
    if (this.localEnded || queued?.ends === true) return;
    if (queued === undefined) {
      this.connection.writeHeaders(this.id, block, true);
      this.endLocal();
    } else {
      queued.trailers = Buffer.copyBytesFrom(block);
      queued.ends = true;
    }
  }

  /** Ends the stream in both directions at once. `errorCode` is one of `ErrorCode`; CANCEL by default. */
  reset(errorCode: number = ErrorCode.CANCEL): void {
    if (this.closed) return;
    this.connection.writeReset(this, errorCode);
    this.abort(errorCode);
  }

  /**
   * Stops giving the peer more window; at most the window's size still comes. All paused streams of a connection together
   * get no more than the connection's window, and with it used up the others wait too.
   */
  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.releaseHeld();
    this.giveCredit();
  }

  /** @internal Sends what was queued, as far as the windows allow. */
  flushQueue(): void {
    const { queued } = this;
    if (queued === undefined) return;
    const { pieces, trailers, ends } = queued;
    for (let piece = pieces[0]; piece !== undefined; piece = pieces[0]) {
      const isLast = pieces.length === 1 && ends && trailers === undefined;
      const sent = this.connection.writeData(this, piece, isLast);
      queued.bytes -= sent;
      this.connection.addQueued(-sent);
      if (sent < piece.length) {
        pieces[0] = piece.subarray(sent);
        return;
      }
      pieces.shift();
    }
    this.queued = undefined;
    this.connection.sendWindow.forget(this);
    if (ends) {
      if (trailers !== undefined) this.connection.writeHeaders(this.id, trailers, true);
      this.endLocal();
    } else {
      this.handler.onWritable?.(this);
    }
  }

  /** @internal A piece of the body without its padding, already charged against the windows. */
  receive(chunk: Buffer, start: number, end: number, ends: boolean): void {
    const length = end - start;
    this.receivedBytes += length;
    const { handler } = this;
    if (handler.body === "pieces") {
      if (length > 0) handler.onData?.(this, this.handedOver(chunk, start, end));
      return;
    }
    if (this.tooLarge) return;
    const { maxBodyBytes } = handler;
    if (maxBodyBytes !== undefined && this.receivedBytes > maxBodyBytes) {
      this.tooLarge = true;
      this.dropAssembled();
      if (handler.onBodyTooLarge === undefined) this.reset(ErrorCode.ENHANCE_YOUR_CALM);
      else handler.onBodyTooLarge(this, this.receivedBytes);
      return;
    }
    if (this.assembled === undefined && ends) {
      // The usual case: the body is in one piece, and handed on before anyone reads more.
      this.assembled = chunk;
      this.bodyStart = start;
      return;
    }
    this.append(chunk, start, end);
  }

  /** @internal The peer's side has ended. */
  endRemote(trailers: HeaderBlock | undefined): void {
    this.remoteEnded = true;
    const { handler } = this;
    if (handler.body === "pieces") {
      handler.onEnd?.(this, trailers);
    } else if (!this.tooLarge) {
      const { assembled = EMPTY, bodyStart } = this;
      const isOwn = this.bufferedBytes > 0;
      const end = bodyStart + this.receivedBytes;
      const borrows = handler.borrowsBody === true;
      // It stays in use until the handler returns, or throws.
      this.assembled = undefined;
      this.dropAssembled();
      try {
        if (borrows && handler.onLentBody !== undefined) handler.onLentBody(this, assembled, bodyStart, end, trailers);
        else {
          const body = isOwn ? assembled.subarray(0, end) : this.handedOver(assembled, bodyStart, end);
          handler.onBody?.(this, body, trailers);
        }
      } finally {
        if (isOwn && borrows) releaseBody(assembled);
      }
    }
    if (this.localEnded) this.complete();
  }

  /** @internal Gives the peer back what it has used of its window, once that is worth a frame. */
  giveCredit(): void {
    if (this.isPaused || this.remoteEnded || this.closed) return;
    if (this.creditBytes * 2 < this.connection.limits.streamWindowBytes) return;
    this.connection.output.windowUpdate(this.id, this.creditBytes);
    this.receiveWindowBytes += this.creditBytes;
    this.creditBytes = 0;
  }

  /** @internal Ends the stream without a word to the peer, and tells the handler. */
  abort(errorCode: number): void {
    if (this.closed) return;
    const finished = this.localEnded && this.remoteEnded;
    this.close();
    if (!finished) this.handler.onReset?.(this, errorCode);
  }

  /** @internal Ends the stream without a word to anyone. */
  close(): void {
    this.localEnded = true;
    this.remoteEnded = true;
    this.finish();
  }

  /** @internal The server has answered and needs no more of the request: whoever waits to send goes on, to nowhere. */
  discardRest(): void {
    const waits = this.queued !== undefined;
    this.close();
    if (waits) this.handler.onWritable?.(this);
  }

  private enqueue(queued: QueuedBody, piece: Buffer): void {
    queued.pieces.push(piece);
    queued.bytes += piece.length;
    this.connection.addQueued(piece.length);
  }

  private append(chunk: Buffer, start: number, end: number): void {
    const length = end - start;
    const before = this.receivedBytes - length;
    let target = this.assembled;
    if (target === undefined) {
      const expected = this.declaredBytes ?? this.handler.expectedBytes?.(this, chunk.subarray(start, end));
      // The handler may have answered, or reset the stream.
      if (this.closed) return;
      const bound = Math.min(expected ?? length * 2, this.handler.maxBodyBytes ?? Infinity);
      target = this.allocate(Math.max(bound, length));
    } else if (this.receivedBytes > target.length) {
      target = this.allocate(Math.max(target.length * 2, this.receivedBytes));
    }
    if (target === undefined) return;
    chunk.copy(target, before, start, end);
    this.assembled = target;
  }

  /** A larger buffer with what is assembled; undefined if the connection has no room for it, which costs the stream. */
  private allocate(wantedBytes: number): Buffer | undefined {
    const { borrowsBody, maxBodyBytes = Infinity } = this.handler;
    const borrows = borrowsBody === true;
    const bytes = Math.min(wantedBytes, maxBodyBytes);
    const memoryBytes = borrows ? bodyMemoryBytes(bytes) : bytes;
    const largestBytes = borrows ? bodyMemoryBytes(maxBodyBytes) : maxBodyBytes;
    if (!this.connection.addBuffered(memoryBytes - this.bufferedBytes, largestBytes)) {
      this.connection.streams.fault(this, ErrorCode.ENHANCE_YOUR_CALM);
      return undefined;
    }
    this.bufferedBytes = memoryBytes;
    if (!borrows) {
      const larger = Buffer.allocUnsafeSlow(bytes);
      this.assembled?.copy(larger, 0);
      return larger;
    }
    const larger = allocateBody(bytes);
    if (this.assembled !== undefined) {
      this.assembled.copy(larger, 0);
      releaseBody(this.assembled);
    }
    return larger;
  }

  /** What of a read the handler gets: itself, unless it may keep what is only lent to us. */
  private handedOver(chunk: Buffer, start: number, end: number): Buffer {
    return this.connection.readsAreLent && this.handler.borrowsBody !== true
      ? Buffer.copyBytesFrom(chunk, start, end - start)
      : chunk.subarray(start, end);
  }

  private dropAssembled(): void {
    const { assembled } = this;
    this.assembled = undefined;
    // Else it is the read itself, if there is anything.
    if (this.bufferedBytes === 0) return;
    this.connection.addBuffered(-this.bufferedBytes);
    this.bufferedBytes = 0;
    if (assembled !== undefined && this.handler.borrowsBody === true) releaseBody(assembled);
  }

  private releaseHeld(): void {
    if (this.heldBytes === 0) return;
    this.connection.giveCredit(this.heldBytes);
    this.heldBytes = 0;
  }

  private endLocal(): void {
    this.localEnded = true;
    if (this.remoteEnded) this.complete();
    else if (!this.remoteEnding) this.connection.onLocalEnd(this);
  }

  /** Both sides have sent all that they would. */
  private complete(): void {
    if (this.closed) return;
    this.connection.streams.earnReset();
    this.finish();
  }

  private finish(): void {
    if (this.closed) return;
    this.closed = true;
    const { queued } = this;
    this.queued = undefined;
    if (queued !== undefined) this.connection.addQueued(-queued.bytes);
    this.dropAssembled();
    this.releaseHeld();
    this.connection.forget(this);
  }
}
