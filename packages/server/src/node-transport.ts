import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import type { ListenOptions, Transport, TransportLimits } from "./transport.ts";

/** A connection that says nothing for this long is closed, milliseconds. */
const FIRST_BYTE_TIMEOUT_MS = 30_000;

/** What an HTTP/2 client with prior knowledge sends first. No HTTP/1.1 method begins with its first three bytes. */
const PREFACE = Buffer.from("PRI");

/** Flow-control window of a stream: a request of this size needs no round trip to be sent. */
const STREAM_WINDOW_BYTES = 1024 * 1024;
/** Flow-control window of a connection: many streams share it. */
const SESSION_WINDOW_BYTES = 16 * 1024 * 1024;
/** Node counts streams' buffers in it and refuses streams beyond: its default of 10 MB is too little for large requests. */
const MAX_SESSION_MEMORY_MB = 512;

export type RequestListener = (
  request: http.IncomingMessage | http2.Http2ServerRequest,
  response: http.ServerResponse | http2.Http2ServerResponse,
) => void;

export interface NodeTransportOptions {
  /** Every request of HTTP/1.1, and those of HTTP/2 that `onStream` leaves. */
  readonly onRequest: RequestListener;
  /** Gets every HTTP/2 stream first; returns whether it takes it. */
  readonly onStream: (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => boolean;
  readonly limits: TransportLimits;
}

/** `--transport node`: node:http and node:http2 on one port, told apart by the connection's first bytes. */
export class NodeTransport implements Transport {
  readonly #server: net.Server;
  readonly #http1: http.Server;
  readonly #http2: http2.Http2Server;
  readonly #sockets = new Set<net.Socket>();
  readonly #sessions = new Set<http2.ServerHttp2Session>();
  #closed: Promise<void> | undefined;

  constructor({ onRequest, onStream, limits }: NodeTransportOptions) {
    this.#http1 = http.createServer({ noDelay: true, maxHeaderSize: limits.maxHeaderBytes }, onRequest);
    // Makes the server watch its connections' timeouts though it listens on no port of its own.
    this.#http1.emit("listening");
    this.#http2 = http2.createServer({
      maxSessionMemory: MAX_SESSION_MEMORY_MB,
      settings: {
        initialWindowSize: STREAM_WINDOW_BYTES,
        maxConcurrentStreams: limits.maxStreamsPerConnection,
        maxHeaderListSize: limits.maxHeaderBytes,
      },
    });
    // Streams that nobody takes become requests and responses as those of HTTP/1.1, which is this server's whole purpose.
    const requests = http2.createServer(onRequest);
    this.#http2.on("stream", (stream, headers, flags, rawHeaders) => {
      if (!onStream(stream, headers)) requests.emit("stream", stream, headers, flags, rawHeaders);
    });
    this.#http2.on("session", (session) => {
      session.setLocalWindowSize(SESSION_WINDOW_BYTES);
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
    this.#http2.on("sessionError", ignore);
    this.#server = net.createServer({ noDelay: true, pauseOnConnect: false }, (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
      this.#recognise(socket);
    });
    this.#server.maxConnections = limits.maxConnections;
  }

  /** Binds and listens; the port, which with 0 is the system's choice. */
  async listen(host: string, port: number, { reusePort = false }: ListenOptions = {}): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port, reusePort, backlog: 1024 }, () => {
        this.#server.off("error", reject);
        resolve();
      });
    });
    // Accepting can fail later (no file descriptors left): the server goes on with the connections it has.
    this.#server.on("error", ignore);
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Takes no new connections, tells clients to go, and resolves when every connection has ended. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    for (const session of this.#sessions) session.close();
    // Whoever asks something after this is told to close the connection; who asks nothing is let go at once.
    this.#http1.closeIdleConnections();
    this.#http1.close();
    for (const socket of this.#sockets) if (unrecognised.has(socket)) socket.destroy();
    await closed;
  }

  /** Ends every connection at once. */
  destroy(): void {
    for (const session of this.#sessions) session.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }

  #recognise(socket: net.Socket): void {
    let first: Buffer | undefined;
    unrecognised.add(socket);
    const onTimeout = (): void => {
      socket.destroy();
    };
    const onData = (chunk: Buffer): void => {
      first = first === undefined ? chunk : Buffer.concat([first, chunk]);
      const length = Math.min(first.length, PREFACE.length);
      const isPreface = first.compare(PREFACE, 0, length, 0, length) === 0;
      if (isPreface && length < PREFACE.length) return;
      socket.off("data", onData);
      socket.off("error", ignore);
      socket.off("timeout", onTimeout);
      socket.setTimeout(0);
      socket.pause();
      unrecognised.delete(socket);
      socket.unshift(first);
      (isPreface ? this.#http2 : this.#http1).emit("connection", socket);
      if (!isPreface) socket.resume();
    };
    socket.on("error", ignore);
    socket.on("data", onData);
    socket.setTimeout(FIRST_BYTE_TIMEOUT_MS, onTimeout);
  }
}

const unrecognised = new WeakSet<net.Socket>();

/** Connections break; whatever request was on them is told by its own stream. */
function ignore(): void {}
