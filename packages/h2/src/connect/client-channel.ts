import { connect, type ConnectOptions } from "../client.ts";
import type { Http2ClientConnection } from "../client-connection.ts";
import type { Http2Connection } from "../connection.ts";
import { Http2Error } from "../http2-error.ts";
import { ErrorCode } from "../protocol.ts";
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
  private readonly closing = new AbortController();

  constructor(options: ClientChannelOptions) {
    this.options = options;
  }

  /**
   * Opens a stream with an encoded header block and, unless it is undefined, a body; what is left of one goes on by
   * `sendData` without `endStream`. Waits while the server allows no more
   * streams; rejects when no connection can be made, when the channel is closed, or with the signal's reason.
   */
  async open(
    head: Uint8Array,
    handler: StreamHandler,
    options: {
      readonly context: unknown;
      readonly body?: Uint8Array | undefined;
      readonly endStream: boolean;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<Http2Stream> {
    const { context, body, endStream, signal } = options;
    for (;;) {
      signal?.throwIfAborted();
      const current = (this.current ??= this.connectOnce());
      const connection = await untilAborted(current, signal);
      signal?.throwIfAborted();
      const stream = connection.request(head, body, handler, { context, endStream });
      if (stream !== undefined) return stream;
      if (connection.isFinished) this.leave(current);
      else await untilAborted(new Promise<void>((resolve) => this.waiting.push(resolve)), signal);
    }
  }

  /** Streams that are to come get another connection than this one; those that are open on it end there. */
  retire(connection: Http2Connection): void {
    connection.drain();
    // Whoever waits for room on it waits in vain.
    this.wake();
  }

  /** Ends all connections at once, also one that is being made, and what is open on them. */
  close(): void {
    this.closing.abort(new Http2Error("connection", ErrorCode.CONNECT_ERROR, "the channel is closed"));
    for (const connection of this.connections) connection.destroy();
    this.wake();
  }

  /** Calls that come meanwhile wait for the same connection; after a failure the next one tries again. */
  private connectOnce(): Promise<Http2ClientConnection> {
    const connecting = this.connect();
    connecting.catch(() => this.leave(connecting));
    return connecting;
  }

  /** Only the first of those that notice leaves it: by the time of the others there is a new one. */
  private leave(connection: Promise<Http2ClientConnection>): void {
    if (this.current === connection) this.current = undefined;
  }

  private async connect(): Promise<Http2ClientConnection> {
    const { signal } = this.closing;
    signal.throwIfAborted();
    const connection = await connect({
      ...this.options,
      signal,
      onRoom: () => this.wake(),
      onGoaway: () => this.wake(),
      onClose: () => {
        this.connections.delete(connection);
        this.wake();
      },
    });
    // Closed after it had connected, when this was not told yet.
    if (signal.aborted) connection.destroy();
    signal.throwIfAborted();
    this.connections.add(connection);
    return connection;
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
