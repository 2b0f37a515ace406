import { Code } from "@connectrpc/connect";
import { ErrorCode } from "../protocol.ts";

/** The gRPC status that a stream's reset stands for (gRPC over HTTP/2, "HTTP2 Transport Mapping"). */
export function codeFromReset(errorCode: number): Code {
  switch (errorCode) {
    case ErrorCode.CANCEL:
      return Code.Canceled;
    case ErrorCode.REFUSED_STREAM:
      return Code.Unavailable;
    case ErrorCode.ENHANCE_YOUR_CALM:
      return Code.ResourceExhausted;
    case ErrorCode.INADEQUATE_SECURITY:
      return Code.PermissionDenied;
    default:
      return Code.Internal;
  }
}
