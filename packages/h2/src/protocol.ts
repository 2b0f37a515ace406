/** Constants of RFC 9113 (HTTP/2). */

/** The first octets a client sends (RFC 9113, section 3.4). */
export const CLIENT_PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export const FRAME_HEADER_BYTES = 9;
/** Every endpoint must take frames of this size (section 4.2). */
export const DEFAULT_MAX_FRAME_BYTES = 16_384;
export const LARGEST_MAX_FRAME_BYTES = 16_777_215;
export const DEFAULT_WINDOW_BYTES = 65_535;
export const LARGEST_WINDOW_BYTES = 0x7fffffff;
export const DEFAULT_HEADER_TABLE_BYTES = 4096;
export const LARGEST_STREAM_ID = 0x7fffffff;

/** Frame types (section 6). */
export const FrameType = {
  DATA: 0x0,
  HEADERS: 0x1,
  PRIORITY: 0x2,
  RST_STREAM: 0x3,
  SETTINGS: 0x4,
  PUSH_PROMISE: 0x5,
  PING: 0x6,
  GOAWAY: 0x7,
  WINDOW_UPDATE: 0x8,
  CONTINUATION: 0x9,
} as const;

export const Flag = {
  END_STREAM: 0x1,
  ACK: 0x1,
  END_HEADERS: 0x4,
  PADDED: 0x8,
  PRIORITY: 0x20,
} as const;

/** Settings (section 6.5.2). */
export const Setting = {
  HEADER_TABLE_SIZE: 0x1,
  ENABLE_PUSH: 0x2,
  MAX_CONCURRENT_STREAMS: 0x3,
  INITIAL_WINDOW_SIZE: 0x4,
  MAX_FRAME_SIZE: 0x5,
  MAX_HEADER_LIST_SIZE: 0x6,
} as const;

/** Error codes (section 7). */
export const ErrorCode = {
  NO_ERROR: 0x0,
  PROTOCOL_ERROR: 0x1,
  INTERNAL_ERROR: 0x2,
  FLOW_CONTROL_ERROR: 0x3,
  SETTINGS_TIMEOUT: 0x4,
  STREAM_CLOSED: 0x5,
  FRAME_SIZE_ERROR: 0x6,
  REFUSED_STREAM: 0x7,
  CANCEL: 0x8,
  COMPRESSION_ERROR: 0x9,
  CONNECT_ERROR: 0xa,
  ENHANCE_YOUR_CALM: 0xb,
  INADEQUATE_SECURITY: 0xc,
  HTTP_1_1_REQUIRED: 0xd,
} as const;
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

const errorNames = new Map<number, string>(Object.entries(ErrorCode).map(([name, code]) => [code, name]));

/** `PROTOCOL_ERROR` for 1; `0x2a` for a code that RFC 9113 does not name. */
export function errorName(code: number): string {
  return errorNames.get(code) ?? `0x${code.toString(16)}`;
}
