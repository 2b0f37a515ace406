import { decodeGrpcMessage, GrpcStatus, statusOfHttp } from "./grpc-status.ts";

/** Header fields of a response that decide its outcome; filled from headers, then from trailers. */
export interface ResponseFields {
  /** 0 until `:status` was seen. */
  httpStatus: number;
  /** -1 until `grpc-status` was seen. */
  grpcStatus: number;
  grpcMessage: string;
}

/** A gRPC message starts with a compression flag and its length. */
export const MESSAGE_PREFIX_BYTES = 5;

/** Takes one header field into account; names that do not matter are ignored. */
export function readResponseField(fields: ResponseFields, name: string, value: string): void {
  if (name === ":status") fields.httpStatus = Number(value);
  else if (name === "grpc-status") fields.grpcStatus = /^\d{1,4}$/.test(value) ? Number(value) : GrpcStatus.unknown;
  else if (name === "grpc-message") fields.grpcMessage = value;
}

/** The gRPC status of a response that has ended. OK needs a message of at least the prefix's size. */
export function statusOfResponse(fields: ResponseFields, bodyBytes: number): number {
  if (fields.grpcStatus >= 0) {
    return fields.grpcStatus === GrpcStatus.ok && bodyBytes < MESSAGE_PREFIX_BYTES
      ? GrpcStatus.internal
      : fields.grpcStatus;
  }
  if (fields.httpStatus !== 200 && fields.httpStatus !== 0) return statusOfHttp(fields.httpStatus);
  return GrpcStatus.internal;
}

/** Says why the status is what it is; empty for OK. */
export function detailOfResponse(fields: ResponseFields, status: number): string {
  if (status === GrpcStatus.ok) return "";
  if (fields.grpcStatus === GrpcStatus.ok) return "the response has no message";
  if (fields.grpcStatus >= 0) return decodeGrpcMessage(fields.grpcMessage);
  return fields.httpStatus === 200
    ? "the response ended without grpc-status"
    : `HTTP status ${fields.httpStatus} without grpc-status`;
}
