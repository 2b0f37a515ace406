import { connect, type ConnectOptions } from "../client.ts";
import type { Http2ClientConnection } from "../client-connection.ts";
import type { Http2Stream, StreamHandler } from "../stream.ts";

export type ClientChannelOptions = Omit<ConnectOptions, "signal" | "onRoom" | "onGoaway" | "onClose">;

/**
 * Streams to one server, over one connection that is opened when it is needed, and anew when the server has closed it or
 * takes no more streams on it (GOAWAY): those that are open on the old one end there.
 */
export class ClientChannel {
  private readonly options: ClientChannelOptions;
  private current: Promise<Http2ClientConnection> | undefined = undefined;
  private readonly connections = new Set<Http2ClientConnection>();
  /** Those that wait for room for a stream. */
  private waiting: (() => void)[] = [];
  private closed = false;

  constructor(options: ClientChannelOptions) {
    this.options = options;
  }

  /**
   * Opens a stream with an encoded header block, its body to follow by `sendData`. Waits while the server allows no more
   * streams; rejects when no connection can be made, when the channel is closed, or with the signal's reason.
   */
  async open(
    head: Uint8Array,
    handler: StreamHandler,
    options: { readonly context: unknown; readonly endStream: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<Http2Stream> {
    const { context, endStream, signal } = options;
    for (;;) {
      signal?.throwIfAborted();
      const connection = await untilAborted((this.current ??= this.connect()), signal);
      signal?.throwIfAborted();
      const stream = connection.request(head, undefined, handler, { context, endStream });
      if (stream !== undefined) return stream;
      if (connection.isFinished) this.current = undefined;
      else await untilAborted(new Promise<void>((resolve) => this.waiting.push(resolve)), signal);
    }
  }

  /** Ends all connections at once, and what is open on them. */
  close(): void {
    this.closed = true;
    for (const connection of this.connections) connection.destroy();
    this.wake();
  }

  private async connect(): Promise<Http2ClientConnection> {
    try {
      if (this.closed) throw new Error("the channel is closed");
      const connection = await connect({
        ...this.options,
        onRoom: () => this.wake(),
        onGoaway: () => this.wake(),
        onClose: () => {
          this.connections.delete(connection);
          this.wake();
        },
      });
      this.connections.add(connection);
      return connection;
    } catch (cause) {
      // The next one tries again.
      this.current = undefined;
      throw cause;
    }
  }

  private wake(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** The promise, or a rejection with the signal's reason, whichever comes first. */
async function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return promise;
  let onAbort: (() => void) | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_, reject) => {
        onAbort = () => reject(signal.reason as Error);
        signal.addEventListener("abort", onAbort, { once: true });
      }),
    ]);
  } finally {
    if (onAbort !== undefined) signal.removeEventListener("abort", onAbort);
  }
}
