import type { ControlFrames } from "./control-frames.ts";
import type { DataReceiver } from "./data-receiver.ts";
import type { FrameSink, PayloadUse } from "./frame-reader.ts";
import type { HeaderAssembler } from "./header-assembler.ts";
import { connectionError } from "./http2-error.ts";
import type { PeerBudget } from "./peer-budget.ts";
import { ErrorCode, Flag, FrameType } from "./protocol.ts";
import type { StreamTable } from "./stream-table.ts";

/** Settings in one SETTINGS frame; there are hardly a dozen in all, and each may cost a look at every stream. */
const MAX_SETTINGS_IN_FRAME = 64;
const PRIORITY_BYTES = 5;

/** Takes each frame to whoever understands it. What may not come now is refused by its header, before its payload is read. */
export class FrameDispatcher implements FrameSink {
  private readonly headers: HeaderAssembler;
  private readonly data: DataReceiver;
  private readonly control: ControlFrames;
  private readonly streams: StreamTable;
  private readonly budget: PeerBudget;
  // The frame that is being read.
  private type = 0;
  private flags = 0;
  private streamId = 0;

  constructor(
    headers: HeaderAssembler,
    data: DataReceiver,
    control: ControlFrames,
    streams: StreamTable,
    budget: PeerBudget,
  ) {
    this.headers = headers;
    this.data = data;
    this.control = control;
    this.streams = streams;
    this.budget = budget;
  }

  onFrameHeader(length: number, type: number, flags: number, streamId: number): PayloadUse {
    if (!this.control.settingsReceived && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0))
      throw connectionError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS");
    const blockStreamId = this.headers.streamId;
    if (blockStreamId !== 0 && (type !== FrameType.CONTINUATION || streamId !== blockStreamId))
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `a frame inside the header block of stream ${blockStreamId}`);
    this.type = type;
    this.flags = flags;
    this.streamId = streamId;
    const { budget } = this;
    switch (type) {
      case FrameType.DATA:
        this.data.begin(length, flags, streamId);
        return "pieces";
      case FrameType.HEADERS:
        if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0");
        return "whole";
      case FrameType.CONTINUATION:
        if (blockStreamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without a header block");
        return "whole";
      case FrameType.WINDOW_UPDATE:
        budget.takeWindowUpdate();
        return wholeOf(4, length, type);
      case FrameType.RST_STREAM:
        budget.takeRstStream();
        return wholeOf(4, length, type);
      case FrameType.PING:
        budget.takePing();
        return wholeOf(8, length, type);
      case FrameType.PRIORITY:
        budget.takeControl("PRIORITY frames");
        if (length === PRIORITY_BYTES) return "whole";
        if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0");
        this.streams.faultAny(streamId, ErrorCode.FRAME_SIZE_ERROR);
        return "drop";
      case FrameType.SETTINGS:
        budget.takeControl("SETTINGS frames");
        if (length > MAX_SETTINGS_IN_FRAME * 6)
          throw connectionError(ErrorCode.ENHANCE_YOUR_CALM, `${length / 6} settings in one frame`);
        return "whole";
      case FrameType.GOAWAY:
        budget.takeControl("GOAWAY frames");
        return "whole";
      case FrameType.PUSH_PROMISE:
        throw connectionError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, though push is off");
      default:
        // Section 4.1: a frame of unknown type is ignored.
        budget.takeControl("frames of unknown types");
        return "drop";
    }
  }

  onDataPiece(bytes: Buffer, start: number, end: number, ends: boolean): void {
    this.data.piece(bytes, start, end, ends);
  }

  onFrame(payload: Buffer, start: number, end: number): void {
    const { control, flags, streamId } = this;
    switch (this.type) {
      case FrameType.HEADERS:
        return this.headers.onHeaders(payload, start, end, flags, streamId);
      case FrameType.PRIORITY:
        return control.onPriority(streamId, payload, start);
      case FrameType.RST_STREAM:
        return control.onRstStream(streamId, payload, start);
      case FrameType.SETTINGS:
        return control.onSettings(streamId, flags, payload, start, end);
      case FrameType.PING:
        return control.onPing(streamId, flags, payload, start);
      case FrameType.GOAWAY:
        return control.onGoaway(streamId, payload, start, end);
      case FrameType.WINDOW_UPDATE:
        return control.onWindowUpdate(streamId, payload, start);
      case FrameType.CONTINUATION:
        return this.headers.onContinuation(payload, start, end, flags);
      default:
        return undefined;
    }
  }
}

/** Frames of one size are refused by their header, before a peer can make us wait for them. */
function wholeOf(expectedBytes: number, length: number, type: number): PayloadUse {
  if (length === expectedBytes) return "whole";
  throw connectionError(
    ErrorCode.FRAME_SIZE_ERROR,
    `a frame of type ${type} and ${length} bytes, expected ${expectedBytes}`,
  );
}
