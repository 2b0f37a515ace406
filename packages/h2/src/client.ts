import net from "node:net";
import tls from "node:tls";
import { Http2ClientConnection, type ClientConnectionEvents } from "./client-connection.ts";
import type { ConnectionOptions } from "./connection.ts";
import { ConnectionKeeper, defaultKeepalive, type KeepaliveOptions } from "./connection-keeper.ts";
import { lentReadOption } from "./lent-reads.ts";
import { fillLimits } from "./limits.ts";
import { ErrorCode } from "./protocol.ts";
import { Http2Error } from "./http2-error.ts";
import { unknownOptions } from "./unknown-options.ts";

export interface ConnectOptions extends Omit<ConnectionOptions, "readsAreLent">, ClientConnectionEvents {
  readonly host: string;
  readonly port: number;
  /** With it the connection speaks TLS and must agree on h2 by ALPN. */
  readonly tls?: tls.ConnectionOptions;
  readonly signal?: AbortSignal;
  readonly keepalive?: Partial<KeepaliveOptions>;
}

const OPTION_NAMES = Object.keys({
  host: true,
  port: true,
  tls: true,
  signal: true,
  keepalive: true,
  limits: true,
  nowMs: true,
  onClose: true,
  onHandlerError: true,
  onRoom: true,
  onGoaway: true,
} satisfies Record<keyof ConnectOptions, true>);

const TICK_MS = 1000;

/**
 * Connects to an HTTP/2 server, cleartext (prior knowledge) or TLS; resolves when the transport is up. Rejects with an
 * `Http2Error` whose `cause` is the system's error, or says that the server did not shake hands (TLS) within `setupTimeoutMs`; with a
 * TypeError or a RangeError, before it connects, that names every option or limit that is unknown.
 */
export function connect(options: ConnectOptions): Promise<Http2ClientConnection> {
  const { host, port, signal } = options;
  return new Promise((resolve, reject) => {
    const unknown = unknownOptions(options, OPTION_NAMES);
    if (unknown.length > 0) throw new TypeError(unknown.join("; "));
    fillLimits(options.limits);
    const keeper = new ConnectionKeeper(options.keepalive);
    const secure =
      options.tls === undefined ? undefined : tls.connect({ host, port, ALPNProtocols: ["h2"], ...options.tls });
    let connection: Http2ClientConnection | undefined;
    const onread = secure === undefined ? lentReadOption((buffer, end) => connection?.read(buffer, end)) : undefined;
    const socket = secure ?? net.connect({ host, port, noDelay: true, ...(onread === undefined ? {} : { onread }) });
    let handshake: NodeJS.Timeout | undefined;
    const fail = (cause: unknown): void => {
      clearTimeout(handshake);
      socket.destroy();
      signal?.removeEventListener("abort", onAbort);
      const reason = cause instanceof Error ? cause.message : String(cause);
      reject(
        new Http2Error("connection", ErrorCode.CONNECT_ERROR, `cannot connect to ${host}:${port}: ${reason}`, {
          cause,
        }),
      );
    };
    const onAbort = (): void => fail(signal?.reason);
    if (signal?.aborted === true) return fail(signal.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    socket.once("error", fail);
    secure?.once("connect", () => {
      const { setupTimeoutMs = defaultKeepalive.setupTimeoutMs } = options.keepalive ?? {};
      const late = new Error(`no TLS handshake within setupTimeoutMs (${setupTimeoutMs})`);
      handshake = setTimeout(fail, setupTimeoutMs, late);
    });
    return socket.once(secure === undefined ? "connect" : "secureConnect", () => {
      if (secure !== undefined && secure.alpnProtocol !== "h2") return fail(new Error("the server does not speak h2"));
      clearTimeout(handshake);
      socket.setNoDelay(true);
      socket.off("error", fail);
      signal?.removeEventListener("abort", onAbort);
      connection = keep(socket, options, keeper, onread !== undefined);
      return resolve(connection);
    });
  });
}

/** The connection, looked after until it closes. */
function keep(
  socket: net.Socket,
  options: ConnectOptions,
  keeper: ConnectionKeeper,
  readsAreLent: boolean,
): Http2ClientConnection {
  const nowMs = options.nowMs ?? (() => performance.now());
  const ticking = setInterval(() => keeper.tick(nowMs()), TICK_MS);
  // A connection that nobody uses keeps the process alive by its socket, if it should.
  ticking.unref();
  const connection = new Http2ClientConnection(
    socket,
    {
      onRoom: () => options.onRoom?.(),
      onGoaway: (errorCode, debug) => options.onGoaway?.(errorCode, debug),
      onHandlerError: (cause) => options.onHandlerError?.(cause),
      onClose(error) {
        clearInterval(ticking);
        options.onClose?.(error);
      },
    },
    { ...options, readsAreLent },
  );
  keeper.add(connection, socket, nowMs());
  return connection;
}
