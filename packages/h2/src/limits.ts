import { unknownOptions } from "./unknown-options.ts";
import { withoutUndefined } from "./without-undefined.ts";

/** What one peer may cost. Each limit names what happens beyond it. */
export interface ConnectionLimits {
  /** Streams a peer may have open; beyond it RST_STREAM with REFUSED_STREAM. Defaults to 256. */
  readonly maxConcurrentStreams: number;
  /** A decoded header list, octets and 32 more a field (RFC 9113, section 6.5.2); beyond it status 431. Defaults to 16,384. */
  readonly maxHeaderListBytes: number;
  /** CONTINUATION frames of one header block; beyond it GOAWAY with ENHANCE_YOUR_CALM. Defaults to 16. */
  readonly maxContinuations: number;
  /** Window of the connection for what the peer sends, bytes. Defaults to 16 MiB. */
  readonly connectionWindowBytes: number;
  /** Window of each stream for what the peer sends, bytes. Defaults to 1 MiB. */
  readonly streamWindowBytes: number;
  /** Largest frame that is taken, bytes, 16,384 to 16,777,215; beyond it FRAME_SIZE_ERROR. Defaults to 16,384. */
  readonly maxFrameBytes: number;
  /** Size of the header table that the peer may fill, bytes. Defaults to 4,096. */
  readonly headerTableBytes: number;
  /** Bytes that wait for the peer to read them; beyond it nothing more is read from the peer. Defaults to 1 MiB. */
  readonly maxOutputBytes: number;
  /**
   * Memory of bodies that are to come whole and have not yet, of all streams of the connection, bytes; a stream that needs
   * more is reset with ENHANCE_YOUR_CALM. One body of its handler's `maxBodyBytes` has room in any case. Defaults to 64 MiB.
   */
  readonly maxBufferedBytes: number;
  /**
   * Bodies that we send and that wait for the peer's window, of all streams of the connection, bytes; beyond it a server
   * resets a stream that has more to send with ENHANCE_YOUR_CALM, and a client opens no further stream. Defaults to 64 MiB.
   */
  readonly maxQueuedBytes: number;
  /**
   * Frames that cost us work and bring nothing (SETTINGS, PRIORITY, empty DATA, unknown frames, frames on closed streams,
   * WINDOW_UPDATE and PING for no data, more RST_STREAM than streams): so many at once, and a tenth of it again each second;
   * beyond it GOAWAY with ENHANCE_YOUR_CALM. What the peer has sent before it knew that we reset a stream is free. Defaults to
   * 10,000.
   */
  readonly controlFrameBurst: number;
  /**
   * Streams that the peer resets before they are answered, or that it makes us reset, beyond one for each that was answered
   * whole: likewise. A client whose calls often pass their deadlines is served, one that resets most of what it asks for is
   * not. Defaults to 1,000.
   */
  readonly resetBurst: number;
}

export const defaultLimits: ConnectionLimits = {
  maxConcurrentStreams: 256,
  maxHeaderListBytes: 16_384,
  maxContinuations: 16,
  connectionWindowBytes: 16 * 1024 * 1024,
  streamWindowBytes: 1024 * 1024,
  maxFrameBytes: 16_384,
  headerTableBytes: 4096,
  maxOutputBytes: 1024 * 1024,
  maxBufferedBytes: 64 * 1024 * 1024,
  maxQueuedBytes: 64 * 1024 * 1024,
  controlFrameBurst: 10_000,
  resetBurst: 1000,
};

const ranges: Record<keyof ConnectionLimits, readonly [least: number, most: number]> = {
  maxConcurrentStreams: [1, 0x7fffffff],
  maxHeaderListBytes: [256, 1 << 24],
  maxContinuations: [0, 1 << 16],
  connectionWindowBytes: [65_535, 0x7fffffff],
  streamWindowBytes: [1, 0x7fffffff],
  maxFrameBytes: [16_384, 16_777_215],
  headerTableBytes: [0, 1 << 20],
  maxOutputBytes: [1024, 0x7fffffff],
  maxBufferedBytes: [1024, 2 ** 40],
  maxQueuedBytes: [1024, 2 ** 40],
  controlFrameBurst: [1, 0x7fffffff],
  resetBurst: [1, 0x7fffffff],
};

/** The limits with defaults filled in; throws a RangeError that names every limit that is unknown or out of its range. */
export function fillLimits(given: Partial<ConnectionLimits> = {}): ConnectionLimits {
  const limits = { ...defaultLimits, ...withoutUndefined(given) };
  const wrong = (Object.keys(ranges) as (keyof ConnectionLimits)[]).filter((name) => {
    const [least, most] = ranges[name];
    return !Number.isInteger(limits[name]) || limits[name] < least || limits[name] > most;
  });
  const unknown = unknownOptions(given, Object.keys(ranges), "limit");
  if (wrong.length + unknown.length === 0) return limits;
  const problems = [
    ...unknown,
    ...wrong.map((name) => `${name}: expected a whole number from ${ranges[name].join(" to ")}, got ${limits[name]}`),
  ];
  throw new RangeError(problems.join("; "));
}
