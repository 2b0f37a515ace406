import { type DescMessage, fromBinary, fromJsonString, type MessageShape } from "@bufbuild/protobuf";
import { type ContextValues, createContextKey, createContextValues } from "@connectrpc/connect";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import type { HeldBody } from "./body-budget.ts";
import { timeoutOf, untilDeadline } from "./body-deadline.ts";
import { toConnectError } from "./connect-error.ts";
import { decompressGzip, FRAME_HEADER_BYTES, FramedMessage, joinChunks, messageTooLarge } from "./framed-message.ts";
import { ActiveRequest, RequestActivity } from "./request-activity.ts";
import { ServerError } from "./server-error.ts";

/*
 * Every call of this server has one request message. It is read here, whole and within the limit, and Connect's handler is
 * given an empty message in its place: so limits, malformed frames and malformed messages have one meaning and one wording
 * over gRPC, gRPC-web and Connect, and a large message is put together once and copied no more.
 */

/** The request message of a call, as it came. */
export interface RequestMessage {
  readonly bytes: Uint8Array;
  readonly json: boolean;
}

const missing: RequestMessage = { bytes: new Uint8Array(), json: false };
const messageKey = createContextKey<RequestMessage>(missing, { description: "the request message as it came" });
const nobody = new ActiveRequest(new RequestActivity());
const activeKey = createContextKey<ActiveRequest>(nobody, { description: "the request among those that are active" });

const emptyBinaryEnvelope = new Uint8Array(FRAME_HEADER_BYTES);
const emptyJsonEnvelope = Uint8Array.of(0, 0, 0, 0, 2, 0x7b, 0x7d);
const emptyBinary = new Uint8Array();
const emptyJson = Uint8Array.of(0x7b, 0x7d);

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Protocol framing by content type: enveloped for gRPC, gRPC-web and Connect streams, plain for Connect unary calls. */
const ENVELOPED = /^application\/(?:grpc|connect\+)/iu;
const JSON_FORMAT = /^application\/(?:json|connect\+json|grpc\+json|grpc-web\+json)(?:;|\s|$)/iu;

export interface RequestReading {
  /** The call among those that are active. */
  readonly active: ActiveRequest;
  /** Largest request message, bytes, compressed and not. */
  readonly maxMessageBytes: number;
  /** What it takes from a budget while it is read; released by the caller, when the call is over. */
  readonly held: HeldBody;
  /** The deadline has passed before the message had come whole; it is refused. */
  readonly onLate: () => void;
  /** The message is refused: the method is not called. */
  readonly onRefused: (error: ServerError) => void;
}

/** Rewires `request` so that its message is read by this module; `requestMessage` gives it to the method, `activeRequest` the other. */
export function interceptRequestMessage(
  request: UniversalServerRequest,
  { active, onLate, ...reading }: RequestReading,
): UniversalServerRequest {
  const { header } = request;
  const contentType = header.get("content-type") ?? "";
  const enveloped = ENVELOPED.test(contentType);
  const json = JSON_FORMAT.test(contentType);
  const contextValues = request.contextValues ?? createContextValues();
  contextValues.set(activeKey, active);
  const encodingHeader = enveloped
    ? contentType.toLowerCase().startsWith("application/connect+")
      ? "connect-content-encoding"
      : "grpc-encoding"
    : "content-encoding";
  const encoding = header.get(encodingHeader) ?? "identity";
  const declaredBytes = enveloped ? undefined : contentLength(header);
  if (!enveloped) {
    // They describe the body that is read here. An encoding that is not ours stays, for Connect to refuse.
    header.delete("content-length");
    if (encoding === "gzip") header.delete(encodingHeader);
  }
  const source = untilDeadline(request.body as AsyncIterable<Uint8Array>, timeoutOf(header), onLate);
  const from: MessageSource = { source, contextValues, enveloped, json, encoding, declaredBytes, ...reading };
  return { ...request, contextValues, body: replaceMessage(from) };
}

/** The message of the call with these context values. */
export function requestMessage(values: ContextValues): RequestMessage {
  return values.get(messageKey);
}

/** The call with these context values among those that are active. */
export function activeRequest(values: ContextValues): ActiveRequest {
  return values.get(activeKey);
}

/** Parses the message of a call; `invalid_argument` if it is malformed. */
export function parseRequest<Desc extends DescMessage>(schema: Desc, values: ContextValues): MessageShape<Desc> {
  return parseMessage(schema, requestMessage(values));
}

export function parseMessage<Desc extends DescMessage>(schema: Desc, message: RequestMessage): MessageShape<Desc> {
  try {
    return message.json
      ? fromJsonString(schema, utf8.decode(message.bytes))
      : fromBinary(schema, message.bytes, { readUnknownFields: false });
  } catch (cause) {
    const format = message.json ? "JSON" : "protobuf";
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `malformed ${format} message ${schema.typeName}: ${reason}`, { cause });
  }
}

interface MessageSource extends Omit<RequestReading, "active" | "onLate"> {
  readonly source: AsyncIterable<Uint8Array>;
  readonly contextValues: ContextValues;
  readonly enveloped: boolean;
  readonly json: boolean;
  readonly encoding: string;
  readonly declaredBytes: number | undefined;
}

async function* replaceMessage(from: MessageSource): AsyncGenerator<Uint8Array> {
  const { enveloped, json } = from;
  let bytes: Uint8Array;
  try {
    bytes = enveloped ? await readEnveloped(from) : await readPlain(from);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    from.onRefused(error);
    throw toConnectError(error);
  }
  from.contextValues.set(messageKey, { bytes, json });
  if (enveloped) yield json ? emptyJsonEnvelope : emptyBinaryEnvelope;
  else yield json ? emptyJson : emptyBinary;
}

async function readPlain(from: MessageSource): Promise<Uint8Array> {
  const { declaredBytes, maxMessageBytes, held } = from;
  if (declaredBytes !== undefined && declaredBytes > maxMessageBytes) {
    throw messageTooLarge(`${declaredBytes} bytes`, maxMessageBytes);
  }
  const chunks: Uint8Array[] = [];
  let received = 0;
  for await (const chunk of from.source) {
    received += chunk.length;
    if (received > maxMessageBytes) throw messageTooLarge(`${received} bytes and more`, maxMessageBytes);
    held.takePiece(chunk.length);
    chunks.push(chunk);
  }
  const bytes = joinChunks(chunks, received);
  return from.encoding === "gzip" && received > 0 ? await decompressGzip(bytes, maxMessageBytes, held) : bytes;
}

async function readEnveloped(from: MessageSource): Promise<Uint8Array> {
  const message = new FramedMessage(from.maxMessageBytes, from.held);
  for await (const chunk of from.source) message.push(chunk);
  return await message.finish(from.encoding);
}

function contentLength(header: Headers): number | undefined {
  const text = header.get("content-length");
  return text !== null && /^\d+$/u.test(text) ? Number(text) : undefined;
}
