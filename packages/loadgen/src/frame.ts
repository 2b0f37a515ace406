/** HTTP/2 frame layout and numbers (RFC 9113 §4, §6, §7). */

/** Every frame starts with: length (24 bits), type (8), flags (8), stream id (31). */
export const FRAME_HEADER_BYTES = 9;

/** Largest payload a peer may send us; we never raise SETTINGS_MAX_FRAME_SIZE above its initial value. */
export const DEFAULT_MAX_FRAME_BYTES = 16_384;

/** Flow-control window that every stream and connection starts with. */
export const DEFAULT_WINDOW_BYTES = 65_535;

/** Largest legal flow-control window. */
export const MAX_WINDOW_BYTES = 0x7fff_ffff;

export const CONNECTION_PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export const FrameType = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FrameFlag = { endStream: 0x1, ack: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

export const SettingId = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

export const Http2ErrorCode = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  settingsTimeout: 4,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  cancel: 8,
  compressionError: 9,
  connectError: 10,
  enhanceYourCalm: 11,
  inadequateSecurity: 12,
  http11Required: 13,
} as const;

const ERROR_NAMES: readonly string[] = [
  "NO_ERROR",
  "PROTOCOL_ERROR",
  "INTERNAL_ERROR",
  "FLOW_CONTROL_ERROR",
  "SETTINGS_TIMEOUT",
  "STREAM_CLOSED",
  "FRAME_SIZE_ERROR",
  "REFUSED_STREAM",
  "CANCEL",
  "COMPRESSION_ERROR",
  "CONNECT_ERROR",
  "ENHANCE_YOUR_CALM",
  "INADEQUATE_SECURITY",
  "HTTP_1_1_REQUIRED",
];

/** Name of an HTTP/2 error code, for messages. */
export function http2ErrorName(code: number): string {
  return ERROR_NAMES[code] ?? `error code 0x${code.toString(16)}`;
}
