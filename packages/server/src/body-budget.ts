import { Code, ConnectError } from "@connectrpc/connect";
import { ServerError } from "./server-error.ts";

/** What a piece of a body takes beside its bytes. */
const PIECE_BYTES = 128;
/** What decompressing one message takes beside its bytes: gzip's window and state, and the buffer that it writes to. */
export const DECOMPRESSOR_BYTES: number = 64 * 1024;

/** Pieces are seldom shorter on the whole: frames and buffers of gzip are of 16 KiB, and reads may cut them. */
const USUAL_PIECE_BYTES = 4096;

/** What one message of that size may need: as it came, with its frame's header, and decompressed. */
export function largestBodyBytes(messageBytes: number): number {
  const pieces = 1 + Math.ceil(messageBytes / USUAL_PIECE_BYTES);
  return 2 * (messageBytes + pieces * PIECE_BYTES) + DECOMPRESSOR_BYTES;
}

/** Bytes of requests' bodies that a frontend may have at one time because they come in pieces or are decompressed. */
export class BodyBudget {
  maxBytes: number;
  #heldBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** For one call, which has nothing yet. */
  hold(): HeldBody {
    return new HeldBody(this);
  }

  /** Throws `resource_exhausted` if that is over the limit. */
  take(byteCount: number): void {
    if (this.#heldBytes + byteCount > this.maxBytes) {
      throw new ServerError(
        "resource_exhausted",
        `the server is overloaded: ${this.#heldBytes} of at most ${this.maxBytes} bytes of requests are buffered (--max-buffered-bytes)`,
      );
    }
    this.#heldBytes += byteCount;
  }

  give(byteCount: number): void {
    this.#heldBytes -= byteCount;
  }
}

/** What one call has of a budget, until it is released. */
export class HeldBody {
  readonly #budget: BodyBudget;
  #byteCount = 0;
  #isReleased = false;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /** Before a piece of the body is kept; throws if there is no room for it, or the call is over. */
  takePiece(byteCount: number): void {
    this.take(byteCount + PIECE_BYTES);
  }

  take(byteCount: number): void {
    if (this.#isReleased) throw new ConnectError("the request is over", Code.Canceled);
    this.#budget.take(byteCount);
    this.#byteCount += byteCount;
  }

  give(byteCount: number): void {
    if (this.#isReleased) return;
    this.#budget.give(byteCount);
    this.#byteCount -= byteCount;
  }

  /** The message has been read, or the call is over. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#budget.give(this.#byteCount);
  }
}
