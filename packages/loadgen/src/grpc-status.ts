import { ErrorCode } from "@dlrm/h2";

/** gRPC status codes by number. */
export const GRPC_STATUS_NAMES: readonly string[] = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

export const GrpcStatus = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** Name of a status code; a number that gRPC does not define keeps its number. */
export function grpcStatusName(status: number): string {
  return GRPC_STATUS_NAMES[status] ?? `CODE_${status}`;
}

/** The status of a call whose response carries no grpc-status, from the HTTP status (gRPC's http-grpc-status-mapping). */
export function statusOfHttp(httpStatus: number): number {
  switch (httpStatus) {
    case 400:
      return GrpcStatus.internal;
    case 401:
      return GrpcStatus.unauthenticated;
    case 403:
      return GrpcStatus.permissionDenied;
    case 404:
      return GrpcStatus.unimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return GrpcStatus.unavailable;
    default:
      return GrpcStatus.unknown;
  }
}

/** The status of a call whose stream was reset (gRPC over HTTP/2, "Errors"). */
export function statusOfReset(http2Code: number): number {
  switch (http2Code) {
    case ErrorCode.REFUSED_STREAM:
      return GrpcStatus.unavailable;
    case ErrorCode.CANCEL:
      return GrpcStatus.cancelled;
    case ErrorCode.ENHANCE_YOUR_CALM:
      return GrpcStatus.resourceExhausted;
    case ErrorCode.INADEQUATE_SECURITY:
      return GrpcStatus.permissionDenied;
    default:
      return GrpcStatus.internal;
  }
}

/** Undoes the percent-encoding of grpc-message; what is not valid stays as it came. */
export function decodeGrpcMessage(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
