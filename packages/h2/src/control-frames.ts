import type { Http2Connection } from "./connection.ts";
import { writePingAck, writeSettingsAck } from "./frame-writer.ts";
import { connectionError } from "./http2-error.ts";
import { ErrorCode, Flag, LARGEST_STREAM_ID, LARGEST_WINDOW_BYTES, Setting } from "./protocol.ts";

const SETTING_BYTES = 6;
const GOAWAY_BYTES = 8;
const LARGEST_DEBUG_BYTES = 256;

/** What a connection does with frames that carry neither headers nor data, once they are whole. */
export class ControlFrames {
  private readonly connection: Http2Connection;
  /** The peer has sent its first SETTINGS. */
  settingsReceived = false;
  /** It has acknowledged ours. */
  settingsAcknowledged = false;
  goawayReceived = false;

  constructor(connection: Http2Connection) {
    this.connection = connection;
  }

  onPriority(streamId: number, payload: Buffer, start: number): void {
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0");
    if ((payload.readUInt32BE(start) & LARGEST_STREAM_ID) === streamId)
      this.connection.streams.faultAny(streamId, ErrorCode.PROTOCOL_ERROR);
  }

  onRstStream(streamId: number, payload: Buffer, start: number): void {
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "RST_STREAM on stream 0");
    const { connection } = this;
    const stream = connection.streams.of(streamId, "RST_STREAM");
    if (stream !== undefined) connection.onPeerReset(stream, payload.readUInt32BE(start));
  }

  onSettings(streamId: number, flags: number, payload: Buffer, start: number, end: number): void {
    const length = end - start;
    if (streamId !== 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS on stream ${streamId}`);
    if ((flags & Flag.ACK) !== 0) return this.onSettingsAck(length);
    if (length % SETTING_BYTES !== 0) throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `SETTINGS of ${length} bytes`);
    for (let at = start; at < end; at += SETTING_BYTES)
      this.apply(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    const { connection } = this;
    writeSettingsAck(connection.output);
    if (!this.settingsReceived) {
      this.settingsReceived = true;
      connection.onFirstSettings();
    }
    connection.serveWaiting();
    return connection.onRoom();
  }

  private onSettingsAck(length: number): void {
    if (length !== 0)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS with a payload");
    this.settingsAcknowledged = true;
    this.connection.onSettingsAcknowledged();
  }

  private apply(id: number, value: number): void {
    const { peer, streams } = this.connection;
    this.connection.checkSetting(id, value);
    const before = peer.initialWindowBytes;
    peer.apply(id, value);
    if (id === Setting.INITIAL_WINDOW_SIZE) streams.changeSendWindows(value - before);
  }

  onPing(streamId: number, flags: number, payload: Buffer, start: number): void {
    if (streamId !== 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, `PING on stream ${streamId}`);
    const sent = payload.subarray(start, start + 8);
    if ((flags & Flag.ACK) !== 0) this.connection.onPingAck(sent);
    else writePingAck(this.connection.output, sent);
  }

  onGoaway(streamId: number, payload: Buffer, start: number, end: number): void {
    if (streamId !== 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, `GOAWAY on stream ${streamId}`);
    if (end - start < GOAWAY_BYTES) throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `GOAWAY of ${end - start} bytes`);
    this.goawayReceived = true;
    const debugStart = start + GOAWAY_BYTES;
    const debug = payload.toString("utf8", debugStart, Math.min(end, debugStart + LARGEST_DEBUG_BYTES));
    const lastStreamId = payload.readUInt32BE(start) & LARGEST_STREAM_ID;
    this.connection.onGoaway(lastStreamId, payload.readUInt32BE(start + 4), debug);
  }

  onWindowUpdate(streamId: number, payload: Buffer, start: number): void {
    const { connection } = this;
    const { streams, sendWindow } = connection;
    const increment = payload.readUInt32BE(start) & LARGEST_WINDOW_BYTES;
    if (streamId === 0) {
      sendWindow.widen(increment);
      return connection.serveWaiting();
    }
    const stream = streams.of(streamId, "WINDOW_UPDATE");
    // It may have been sent before the peer knew that the stream was closed.
    if (stream === undefined) return undefined;
    if (increment === 0) return streams.fault(stream, ErrorCode.PROTOCOL_ERROR);
    stream.sendWindowBytes += increment;
    if (stream.sendWindowBytes > LARGEST_WINDOW_BYTES) return streams.fault(stream, ErrorCode.FLOW_CONTROL_ERROR);
    if (sendWindow.waitsFor(stream)) streams.guarded(stream, () => stream.flushQueue());
    return undefined;
  }
}
