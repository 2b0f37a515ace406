import { DataType } from "@dlrm/proto";
import { FRAME_HEADER_BYTES } from "./framed-message.ts";

const SCORES = Buffer.from("scores");
const FLOAT32_BYTES = 4;

// Tags of the fields, all of one byte: number << 3 | wire type.
const OUTPUTS_TAG = 0x0a;
const VERSION_TAG = 0x12;
const KEY_TAG = 0x0a;
const VALUE_TAG = 0x12;
const DATA_TYPE_TAG = 0x08;
const SHAPE_TAG = 0x12;
const DATA_TAG = 0x1a;

/** A `dlrm.serving.v1.PredictResponse` in gRPC's frame: one buffer, written once. */
export function framePredictResponse(scores: Float32Array<ArrayBuffer>, version: string): Buffer {
  const dataBytes = scores.length * FLOAT32_BYTES;
  const shapeBytes = varintBytes(scores.length);
  const valueBytes = 2 + 2 + shapeBytes + 1 + varintBytes(dataBytes) + dataBytes;
  const entryBytes = 2 + SCORES.length + 1 + varintBytes(valueBytes) + valueBytes;
  const versionBytes = Buffer.byteLength(version);
  const versionFieldBytes = versionBytes === 0 ? 0 : 1 + varintBytes(versionBytes) + versionBytes;
  const messageBytes = 1 + varintBytes(entryBytes) + entryBytes + versionFieldBytes;

  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + messageBytes);
  bytes[0] = 0;
  bytes.writeUInt32BE(messageBytes, 1);
  let at = FRAME_HEADER_BYTES;
  bytes[at++] = OUTPUTS_TAG;
  at = writeVarint(bytes, at, entryBytes);
  bytes[at++] = KEY_TAG;
  bytes[at++] = SCORES.length;
  at += SCORES.copy(bytes, at);
  bytes[at++] = VALUE_TAG;
  at = writeVarint(bytes, at, valueBytes);
  bytes[at++] = DATA_TYPE_TAG;
  bytes[at++] = DataType.FLOAT32;
  bytes[at++] = SHAPE_TAG;
  bytes[at++] = shapeBytes;
  at = writeVarint(bytes, at, scores.length);
  bytes[at++] = DATA_TAG;
  at = writeVarint(bytes, at, dataBytes);
  bytes.set(new Uint8Array(scores.buffer, scores.byteOffset, dataBytes), at);
  at += dataBytes;
  if (versionBytes > 0) {
    bytes[at++] = VERSION_TAG;
    at = writeVarint(bytes, at, versionBytes);
    bytes.write(version, at);
  }
  return bytes;
}

function varintBytes(value: number): number {
  let count = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 128)) count++;
  return count;
}

function writeVarint(bytes: Buffer, start: number, value: number): number {
  let at = start;
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes[at++] = (rest & 0x7f) | 0x80;
  bytes[at++] = rest;
  return at;
}
