export interface ListenOptions {
  /** Other threads of this process may listen on the same port: the kernel spreads connections over them. Default false. */
  readonly reusePort?: boolean;
}

/** What listens on the server's port: HTTP/1.1 and cleartext HTTP/2 (h2c, prior knowledge), told apart by their first bytes. */
export interface Transport {
  /** Binds and listens; the port, which with 0 is the system's choice. */
  listen(host: string, port: number, options?: ListenOptions): Promise<number>;
  /** Takes no new connections, tells clients to go, and resolves when every connection has ended. Idempotent. */
  close(): Promise<void>;
  /** Ends every connection at once. */
  destroy(): void;
}

/**
 * Bytes of messages that have not come whole which a connection may have over the transport `h2`, or one of the largest message
 * if that is more; beyond it RST_STREAM with ENHANCE_YOUR_CALM.
 */
export const MAX_INCOMPLETE_BYTES_PER_CONNECTION: number = 64 * 1024 * 1024;

/** What one caller, and all of them, may take. */
export interface TransportLimits {
  /** Connections at once; beyond it a new one is closed at once. */
  readonly maxConnections: number;
  /** Calls that a connection may have open; beyond it REFUSED_STREAM. */
  readonly maxStreamsPerConnection: number;
  /** A request's headers, octets and 32 more a field (RFC 9113, section 6.5.2); beyond it HTTP status 431. */
  readonly maxHeaderBytes: number;
}
