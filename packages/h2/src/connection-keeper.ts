import type { Duplex } from "node:stream";
import type { Http2Connection } from "./connection.ts";
import { Http2Error } from "./http2-error.ts";
import { ErrorCode } from "./protocol.ts";
import { unknownOptions } from "./unknown-options.ts";
import { withoutUndefined } from "./without-undefined.ts";

export interface KeepaliveOptions {
  /** A peer that has been silent for this long is asked for a sign of life (PING), milliseconds. Defaults to 60,000. */
  readonly keepaliveIntervalMs: number;
  /**
   * A peer that does not answer it within this is given up, milliseconds; one that does not answer the PING of a server that
   * drains may open no more streams from then on. Defaults to 20,000.
   */
  readonly keepaliveTimeoutMs: number;
  /** A peer must have shaken hands (TLS), and have sent its first SETTINGS, within this each, milliseconds. Defaults to 10,000. */
  readonly setupTimeoutMs: number;
  /** A peer that asked for something and reads nothing of it for this long is given up, milliseconds. Defaults to 30,000. */
  readonly stallTimeoutMs: number;
}

export const defaultKeepalive: KeepaliveOptions = {
  keepaliveIntervalMs: 60_000,
  keepaliveTimeoutMs: 20_000,
  setupTimeoutMs: 10_000,
  stallTimeoutMs: 30_000,
};

/** A connection that was closed and does not go is cut off after this. */
const LINGER_MS = 2000;

interface Kept {
  readonly socket: Duplex;
  readonly sinceMs: number;
  reads: number;
  silentSinceMs: number;
  askedAtMs: number | undefined;
  written: number;
  stalledSinceMs: number | undefined;
  drainingSinceMs: number | undefined;
  closedAtMs: number | undefined;
}

/**
 * Looks after the connections of a server or client: one timer for all of them, which calls `tick` about once a second,
 * instead of several for each.
 */
export class ConnectionKeeper {
  private readonly options: KeepaliveOptions;
  private readonly kept = new Map<Http2Connection, Kept>();

  /** Throws a TypeError that names every option that is unknown. */
  constructor(options: Partial<KeepaliveOptions> = {}) {
    const unknown = unknownOptions(options, Object.keys(defaultKeepalive));
    if (unknown.length > 0) throw new TypeError(`keepalive: ${unknown.join("; ")}`);
    this.options = { ...defaultKeepalive, ...withoutUndefined(options) };
  }

  get size(): number {
    return this.kept.size;
  }

  add(connection: Http2Connection, socket: Duplex, nowMs: number): void {
    this.kept.set(connection, {
      socket,
      sinceMs: nowMs,
      reads: 0,
      silentSinceMs: nowMs,
      askedAtMs: undefined,
      written: 0,
      stalledSinceMs: undefined,
      drainingSinceMs: undefined,
      closedAtMs: undefined,
    });
  }

  remove(connection: Http2Connection): void {
    this.kept.delete(connection);
  }

  tick(nowMs: number): void {
    for (const [connection, kept] of this.kept) {
      if (connection.isClosed) this.cutOff(kept, nowMs);
      else this.look(connection, kept, nowMs);
    }
  }

  private cutOff(kept: Kept, nowMs: number): void {
    kept.closedAtMs ??= nowMs;
    if (nowMs - kept.closedAtMs >= LINGER_MS) kept.socket.destroy();
  }

  private look(connection: Http2Connection, kept: Kept, nowMs: number): void {
    const { keepaliveIntervalMs, keepaliveTimeoutMs, setupTimeoutMs, stallTimeoutMs } = this.options;
    if (connection.reads !== kept.reads) {
      kept.reads = connection.reads;
      kept.silentSinceMs = nowMs;
      kept.askedAtMs = undefined;
    }
    if (!connection.isSetUp) {
      if (nowMs - kept.sinceMs >= setupTimeoutMs)
        this.giveUp(connection, ErrorCode.SETTINGS_TIMEOUT, `no SETTINGS within setupTimeoutMs (${setupTimeoutMs})`);
      return;
    }
    if (kept.askedAtMs !== undefined) {
      if (nowMs - kept.askedAtMs >= keepaliveTimeoutMs)
        this.giveUp(
          connection,
          ErrorCode.NO_ERROR,
          `no answer to a PING within keepaliveTimeoutMs (${keepaliveTimeoutMs})`,
        );
    } else if (nowMs - kept.silentSinceMs >= keepaliveIntervalMs) {
      kept.askedAtMs = nowMs;
      connection.sendKeepalive();
    }
    if (connection.drainIsUnanswered) {
      kept.drainingSinceMs ??= nowMs;
      if (nowMs - kept.drainingSinceMs >= keepaliveTimeoutMs) connection.refuseStreams();
    }
    const { progressBytes } = connection;
    if (!connection.isStalled || progressBytes !== kept.written) {
      kept.written = progressBytes;
      kept.stalledSinceMs = undefined;
      return;
    }
    kept.stalledSinceMs ??= nowMs;
    if (nowMs - kept.stalledSinceMs >= stallTimeoutMs)
      this.giveUp(connection, ErrorCode.ENHANCE_YOUR_CALM, `nothing was read for stallTimeoutMs (${stallTimeoutMs})`);
  }

  private giveUp(connection: Http2Connection, errorCode: number, message: string): void {
    connection.destroy(new Http2Error("connection", errorCode, message));
  }
}
