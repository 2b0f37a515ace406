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

/** Copied one by one up to here; a view of the source costs more than that. */
const FEW_SCORES = 16;
/** Templates that are kept: callers mostly ask for few different numbers of examples. */
const MAX_KEPT_TEMPLATES = 64;

/** A `dlrm.serving.v1.PredictResponse` in gRPC's frame, without its scores. */
interface ResponseTemplate {
  readonly bytes: Buffer;
  readonly view: DataView;
  /** Where the scores go. */
  readonly dataAt: number;
}

/** A `dlrm.serving.v1.PredictResponse` in gRPC's frame: one buffer, written once. */
export function framePredictResponse(scores: Float32Array<ArrayBuffer>, version: string): Buffer {
  return fillTemplate(responseTemplate(scores.length, version), scores, 0, scores.length);
}

/** The same for answers that are sent at once: the buffer is used again for the next one. */
export class PredictResponses {
  readonly #templates = new Map<number, ResponseTemplate>();
  #version = "";

  /** The response with `scores[start, start + count)`; valid until the next call. */
  fill(scores: Float32Array, start: number, count: number, version: string): Buffer {
    let template = this.#templates.get(count);
    if (template === undefined || version !== this.#version) {
      if (version !== this.#version || this.#templates.size === MAX_KEPT_TEMPLATES) this.#templates.clear();
      template = responseTemplate(count, version);
      this.#version = version;
      this.#templates.set(count, template);
    }
    return fillTemplate(template, scores, start, count);
  }
}

function fillTemplate(template: ResponseTemplate, scores: Float32Array, start: number, count: number): Buffer {
  const { bytes, view, dataAt } = template;
  if (count <= FEW_SCORES) {
    for (let index = 0; index < count; index++) {
      view.setFloat32(dataAt + index * FLOAT32_BYTES, scores[start + index] as number, true);
    }
  } else {
    const from = scores.byteOffset + start * FLOAT32_BYTES;
    bytes.set(new Uint8Array(scores.buffer, from, count * FLOAT32_BYTES), dataAt);
  }
  return bytes;
}

function responseTemplate(count: number, version: string): ResponseTemplate {
  const dataBytes = count * FLOAT32_BYTES;
  const shapeBytes = varintBytes(count);
  const valueBytes = 2 + 2 + shapeBytes + 1 + varintBytes(dataBytes) + dataBytes;
  const entryBytes = 2 + SCORES.length + 1 + varintBytes(valueBytes) + valueBytes;
  const versionBytes = Buffer.byteLength(version);
  const versionFieldBytes = versionBytes === 0 ? 0 : 1 + varintBytes(versionBytes) + versionBytes;
  const messageBytes = 1 + varintBytes(entryBytes) + entryBytes + versionFieldBytes;

  const bytes = Buffer.allocUnsafeSlow(FRAME_HEADER_BYTES + messageBytes);
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
  at = writeVarint(bytes, at, count);
  bytes[at++] = DATA_TAG;
  at = writeVarint(bytes, at, dataBytes);
  const dataAt = at;
  at += dataBytes;
  if (versionBytes > 0) {
    bytes[at++] = VERSION_TAG;
    at = writeVarint(bytes, at, versionBytes);
    bytes.write(version, at);
  }
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset), dataAt };
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
