import type { Output } from "./output.ts";
import type { PeerSettings } from "./peer-settings.ts";
import { ErrorCode, Flag, FrameType } from "./protocol.ts";

const LARGEST_DEBUG_CHARACTERS = 256;

export function writeSettings(output: Output, settings: readonly (readonly [id: number, value: number])[]): void {
  output.frameHeader(settings.length * 6, FrameType.SETTINGS, 0, 0);
  for (const [id, value] of settings) {
    output.uint16(id);
    output.uint32(value);
  }
}

export function writeGoaway(output: Output, lastStreamId: number, errorCode: number, message: string): void {
  const said = errorCode === ErrorCode.NO_ERROR ? "" : message.slice(0, LARGEST_DEBUG_CHARACTERS);
  const debug = Buffer.from(said, "utf8");
  output.frameHeader(8 + debug.length, FrameType.GOAWAY, 0, 0);
  output.uint32(lastStreamId);
  output.uint32(errorCode);
  output.bytes(debug);
}

export function writePing(output: Output, payload: Uint8Array): void {
  output.frameHeader(8, FrameType.PING, 0, 0);
  output.bytes(payload, 0, 8);
}

export function writePingAck(output: Output, payload: Uint8Array): void {
  output.frameHeader(8, FrameType.PING, Flag.ACK, 0);
  output.bytes(payload, 0, 8);
}

export function writeSettingsAck(output: Output): void {
  output.frameHeader(0, FrameType.SETTINGS, Flag.ACK, 0);
}

/** An encoded block, cut into CONTINUATION frames where it is longer than the peer's frames may be. */
export function writeHeaderBlock(
  output: Output,
  peer: PeerSettings,
  streamId: number,
  block: Uint8Array,
  endStream: boolean,
): void {
  const { maxFrameBytes, headerPrefix } = peer;
  const prefixBytes = headerPrefix === undefined ? 0 : 1;
  let end = Math.min(block.length, maxFrameBytes - prefixBytes);
  const flags = (endStream ? Flag.END_STREAM : 0) | (end === block.length ? Flag.END_HEADERS : 0);
  output.frameHeader(end + prefixBytes, FrameType.HEADERS, flags, streamId);
  if (headerPrefix !== undefined) {
    output.octet(headerPrefix);
    peer.headerPrefix = undefined;
  }
  output.bytes(block, 0, end);
  while (end < block.length) {
    const start = end;
    end = Math.min(block.length, start + maxFrameBytes);
    const isLast = end === block.length;
    output.frameHeader(end - start, FrameType.CONTINUATION, isLast ? Flag.END_HEADERS : 0, streamId);
    output.bytes(block, start, end);
  }
}
