import http from "node:http";
import net from "node:net";
import tls from "node:tls";
import { ConnectionKeeper, defaultKeepalive, type KeepaliveOptions } from "./connection-keeper.ts";
import type { Http2Error } from "./http2-error.ts";
import { lendReadsOf } from "./lent-reads.ts";
import { fillLimits, type ConnectionLimits } from "./limits.ts";
import { Http2ServerConnection, type ServerConnectionEvents } from "./server-connection.ts";
import { unknownOptions } from "./unknown-options.ts";

/** What an HTTP/2 client with prior knowledge sends first; no HTTP/1.1 method begins with it. */
const PREFACE_START = Buffer.from("PRI ", "latin1");
const TICK_MS = 1000;

export interface Http2ServerOptions {
  /** A request's headers have come: returns who takes its body. */
  readonly onRequest: ServerConnectionEvents["onRequest"];
  /**
   * Takes requests of HTTP/1.1 clients on the same port, recognised by their first octets (or by ALPN). Without it they are
   * answered 505.
   */
  readonly onHttp1Request?: http.RequestListener;
  /** With it the server speaks TLS, and ALPN chooses between h2 and HTTP/1.1. */
  readonly tls?: tls.TlsOptions;
  readonly limits?: Partial<ConnectionLimits>;
  readonly keepalive?: Partial<KeepaliveOptions>;
  /** Connections at once; beyond it a new one is closed at once. Unlimited by default. */
  readonly maxConnections?: number;
  /** A connection ended for a reason that was neither side's wish. */
  readonly onConnectionError?: (error: Http2Error) => void;
  /** A handler threw. Without it the error is thrown as an uncaught one. */
  readonly onHandlerError?: (cause: unknown) => void;
}

const OPTION_NAMES = Object.keys({
  onRequest: true,
  onHttp1Request: true,
  tls: true,
  limits: true,
  keepalive: true,
  maxConnections: true,
  onConnectionError: true,
  onHandlerError: true,
} satisfies Record<keyof Http2ServerOptions, true>);

/** Throws a TypeError that names every option that is unknown or missing. */
function checkOptions(options: Http2ServerOptions): void {
  const problems = unknownOptions(options, OPTION_NAMES);
  const { onRequest } = options as Partial<Http2ServerOptions>;
  if (typeof onRequest !== "function") problems.push(`onRequest: expected a function, got ${String(onRequest)}`);
  if (problems.length > 0) throw new TypeError(problems.join("; "));
}

export interface ListenOptions {
  /** Defaults to 127.0.0.1. */
  readonly host?: string;
  /** 0, the default, is the system's choice. */
  readonly port?: number;
  /** SO_REUSEPORT: several servers, threads or processes share one port. */
  readonly reusePort?: boolean;
  /** Connections that wait to be accepted. Defaults to 1,024. */
  readonly backlog?: number;
}

const LISTEN_OPTION_NAMES = Object.keys({
  host: true,
  port: true,
  reusePort: true,
  backlog: true,
} satisfies Record<keyof ListenOptions, true>);

/** Listens for HTTP/2 connections, cleartext (prior knowledge) or TLS, and hands HTTP/1.1 to `node:http` on the same port. */
export class Http2Server {
  private readonly options: Http2ServerOptions;
  private readonly server: net.Server;
  private readonly http1: http.Server;
  private readonly keeper: ConnectionKeeper;
  private readonly setupTimeoutMs: number;
  private readonly connections = new Set<Http2ServerConnection>();
  private readonly sockets = new Set<net.Socket>();
  private readonly unrecognised = new Map<net.Socket, number>();
  /** Those that have not shaken hands yet (TLS), by the addresses of both ends: Node makes another socket of one that has. */
  private readonly shakingHands = new Map<string, net.Socket>();
  private ticking: NodeJS.Timeout | undefined;
  private closed: Promise<void> | undefined;
  private onEmpty: (() => void) | undefined;

  constructor(options: Http2ServerOptions) {
    checkOptions(options);
    fillLimits(options.limits);
    this.options = options;
    this.keeper = new ConnectionKeeper(options.keepalive);
    this.setupTimeoutMs = options.keepalive?.setupTimeoutMs ?? defaultKeepalive.setupTimeoutMs;
    this.http1 = http.createServer({ noDelay: true }, options.onHttp1Request ?? refuseHttp1);
    // Makes it keep account of its connections though it listens on no port of its own.
    this.http1.emit("listening");
    if (options.tls === undefined) {
      this.server = net.createServer({ noDelay: true }, (socket) => this.recognise(socket));
    } else {
      const server = tls.createServer(
        {
          ALPNProtocols: ["h2", "http/1.1"],
          noDelay: true,
          handshakeTimeout: this.setupTimeoutMs,
          ...options.tls,
        } as tls.TlsOptions,
        (socket) => {
          this.shakingHands.delete(addressesOf(socket));
          if (socket.alpnProtocol === "h2") this.accept(socket);
          else if (socket.alpnProtocol === "http/1.1") this.http1.emit("connection", socket);
          else this.recognise(socket);
        },
      );
      // Node itself closes nothing when a handshake has taken too long.
      server.on("tlsClientError", (_error, socket) => socket.destroy());
      this.server = server;
    }
    this.server.on("connection", (socket: net.Socket) => {
      this.sockets.add(socket);
      const addresses = addressesOf(socket);
      if (options.tls !== undefined) this.shakingHands.set(addresses, socket);
      socket.once("close", () => {
        this.sockets.delete(socket);
        // Another connection may have the same addresses by now.
        if (this.shakingHands.get(addresses) === socket) this.shakingHands.delete(addresses);
      });
    });
    if (options.maxConnections !== undefined) this.server.maxConnections = options.maxConnections;
  }

  /** HTTP/2 connections that are open. */
  get openConnections(): number {
    return this.connections.size;
  }

  /** Binds and listens; resolves with the port. Rejects with the system's error, such as EADDRINUSE, or a TypeError on an unknown option. */
  async listen(options: ListenOptions = {}): Promise<number> {
    const unknown = unknownOptions(options, LISTEN_OPTION_NAMES);
    if (unknown.length > 0) throw new TypeError(unknown.join("; "));
    const { host = "127.0.0.1", port = 0, reusePort = false, backlog = 1024 } = options;
    await new Promise<void>((resolve, reject) => {
      this.server.once("error", reject);
      this.server.listen({ host, port, reusePort, backlog }, () => {
        this.server.off("error", reject);
        resolve();
      });
    });
    // Accepting can fail later, when there are no file descriptors left: what is connected goes on.
    this.server.on("error", ignore);
    this.ticking = setInterval(() => this.tick(performance.now()), TICK_MS);
    this.ticking.unref();
    return (this.server.address() as net.AddressInfo).port;
  }

  /**
   * Takes no new connections, tells clients to open no more streams, and resolves when every stream and connection has
   * ended by itself. Connections on which nothing has been asked for, not even by a TLS handshake that is complete, are ended.
   */
  drain(): Promise<void> {
    this.closed ??= this.untilClosed();
    for (const connection of this.connections) connection.drain();
    this.http1.close();
    this.http1.closeIdleConnections();
    for (const socket of this.unrecognised.keys()) socket.destroy();
    for (const socket of this.shakingHands.values()) socket.destroy();
    return this.closed.finally(() => clearInterval(this.ticking));
  }

  private async untilClosed(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.server.close(() => resolve());
    });
    // The server knows that a socket is closed before its connection does.
    if (this.connections.size > 0) await new Promise<void>((resolve) => (this.onEmpty = resolve));
  }

  /** Ends every connection at once. */
  async close(): Promise<void> {
    const drained = this.drain();
    for (const connection of this.connections) connection.destroy();
    for (const socket of this.sockets) socket.destroy();
    await drained;
  }

  /**
   * Takes over a connection that has been accepted elsewhere, and is known to speak HTTP/2. The socket may be used no more,
   * but to destroy it.
   */
  accept(accepted: net.Socket, firstOctets?: Buffer): Http2ServerConnection {
    const { onRequest, onConnectionError, onHandlerError, limits } = this.options;
    const lending = lendReadsOf(accepted, (buffer, end) => connection.read(buffer, end));
    const socket = lending ?? accepted;
    const connection: Http2ServerConnection = new Http2ServerConnection(
      socket,
      {
        onRequest,
        onClose: (error) => {
          this.connections.delete(connection);
          this.keeper.remove(connection);
          if (error !== undefined) onConnectionError?.(error);
          if (this.connections.size === 0) this.onEmpty?.();
        },
        onHandlerError: onHandlerError ?? throwUncaught,
      },
      { limits: limits ?? {}, readsAreLent: lending !== undefined },
    );
    // Section 9.2.1 of RFC 9113.
    if (socket instanceof tls.TLSSocket) socket.disableRenegotiation();
    this.connections.add(connection);
    this.keeper.add(connection, socket, performance.now());
    if (firstOctets !== undefined) connection.read(firstOctets);
    if (this.closed !== undefined) connection.drain();
    return connection;
  }

  private recognise(socket: net.Socket): void {
    let first: Buffer = Buffer.alloc(0);
    const forget = (): void => {
      this.unrecognised.delete(socket);
      socket.off("data", onData);
      socket.off("error", ignore);
      socket.off("close", forget);
    };
    const onData = (chunk: Buffer): void => {
      first = first.length === 0 ? chunk : Buffer.concat([first, chunk]);
      const length = Math.min(first.length, PREFACE_START.length);
      const isPreface = first.compare(PREFACE_START, 0, length, 0, length) === 0;
      if (isPreface && length < PREFACE_START.length) return;
      forget();
      if (isPreface) {
        this.accept(socket, first);
        return;
      }
      socket.pause();
      socket.unshift(first);
      this.http1.emit("connection", socket);
      socket.resume();
    };
    this.unrecognised.set(socket, performance.now());
    socket.on("error", ignore);
    socket.on("close", forget);
    socket.on("data", onData);
  }

  private tick(nowMs: number): void {
    this.keeper.tick(nowMs);
    for (const [socket, sinceMs] of this.unrecognised) {
      if (nowMs - sinceMs >= this.setupTimeoutMs) socket.destroy();
    }
  }
}

/**
 * Makes a server; `listen` starts it. Throws a TypeError that names every option that is unknown or missing, and a RangeError that names
 * every limit that is unknown or out of its range.
 */
export function createServer(options: Http2ServerOptions): Http2Server {
  return new Http2Server(options);
}

function refuseHttp1(_request: http.IncomingMessage, response: http.ServerResponse): void {
  response.writeHead(505, { "content-type": "text/plain", connection: "close" });
  response.end("this port speaks HTTP/2\n");
}

/** What no other open connection has; of one that is lost already nothing is known. */
function addressesOf({ localAddress, localPort, remoteAddress, remotePort }: net.Socket): string {
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}

function throwUncaught(cause: unknown): void {
  queueMicrotask(() => {
    throw cause;
  });
}

function ignore(): void {}
