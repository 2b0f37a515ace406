import { connectionError } from "./http2-error.ts";
import {
  DEFAULT_HEADER_TABLE_BYTES,
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  ErrorCode,
  LARGEST_MAX_FRAME_BYTES,
  LARGEST_WINDOW_BYTES,
  Setting,
} from "./protocol.ts";

/** HPACK's "the dynamic table has no octets" (RFC 7541, section 6.3). */
const EMPTY_TABLE_UPDATE = 0x20;

/** What the peer has said that it takes (RFC 9113, section 6.5.2); the protocol's defaults until it does. */
export class PeerSettings {
  initialWindowBytes: number = DEFAULT_WINDOW_BYTES;
  maxFrameBytes: number = DEFAULT_MAX_FRAME_BYTES;
  /** Streams that it lets us open. */
  maxConcurrentStreams: number = Infinity;
  /** An encoded table size update that must start our next header block. */
  headerPrefix: number | undefined = undefined;
  private announcedTableBytes = DEFAULT_HEADER_TABLE_BYTES;

  /** Throws on a value that is out of the setting's range. */
  apply(id: number, value: number): void {
    switch (id) {
      case Setting.HEADER_TABLE_SIZE:
        // We put nothing into the peer's table, but must say so once it may have become smaller (RFC 7541, section 4.2).
        if (value < this.announcedTableBytes) {
          this.announcedTableBytes = 0;
          this.headerPrefix = EMPTY_TABLE_UPDATE;
        }
        break;
      case Setting.ENABLE_PUSH:
        if (value > 1) throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS_ENABLE_PUSH is ${value}`);
        break;
      case Setting.MAX_CONCURRENT_STREAMS:
        this.maxConcurrentStreams = value;
        break;
      case Setting.INITIAL_WINDOW_SIZE:
        if (value > LARGEST_WINDOW_BYTES)
          throw connectionError(ErrorCode.FLOW_CONTROL_ERROR, `SETTINGS_INITIAL_WINDOW_SIZE is ${value}`);
        this.initialWindowBytes = value;
        break;
      case Setting.MAX_FRAME_SIZE:
        if (value < DEFAULT_MAX_FRAME_BYTES || value > LARGEST_MAX_FRAME_BYTES)
          throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS_MAX_FRAME_SIZE is ${value}`);
        this.maxFrameBytes = value;
        break;
      default:
      // Section 6.5.2: a setting that is not known is ignored.
    }
  }
}
