import {
  create,
  createFileRegistry,
  fromBinary,
  type DescMessage,
  type DescService,
  type FileRegistry,
  type Message,
} from "@bufbuild/protobuf";
import { anyPack, FileDescriptorSetSchema, type Any } from "@bufbuild/protobuf/wkt";
import { ConnectError, type Code, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";

const PACKAGE = "connectrpc.conformance.v1";

// The suite's messages, as far as a server needs them; the descriptors are read when it runs.
interface Header {
  readonly name: string;
  readonly value: readonly string[];
}
interface Failure {
  readonly code: Code;
  readonly message?: string;
  readonly details: readonly Any[];
}
interface UnaryDefinition {
  readonly responseHeaders: readonly Header[];
  readonly responseTrailers: readonly Header[];
  readonly responseDelayMs: number;
  readonly response:
    | { readonly case: "responseData"; readonly value: Uint8Array }
    | { readonly case: "error"; readonly value: Failure }
    | { readonly case: undefined };
}
interface StreamDefinition {
  readonly responseHeaders: readonly Header[];
  readonly responseTrailers: readonly Header[];
  readonly responseDelayMs: number;
  readonly responseData: readonly Uint8Array[];
  readonly error?: Failure;
}
type UnaryRequest = Message & { readonly responseDefinition?: UnaryDefinition };
type StreamRequest = Message & { readonly responseDefinition?: StreamDefinition; readonly fullDuplex?: boolean };
type RequestInfo = Record<string, unknown>;
interface Payload {
  readonly payload: { readonly data?: Uint8Array; readonly requestInfo?: RequestInfo };
}
export interface ServerCompatRequest {
  readonly useTls: boolean;
  readonly httpVersion: number;
  readonly clientTlsCert: Uint8Array;
  readonly messageReceiveLimit: number;
  readonly serverCreds?: { readonly cert: Uint8Array; readonly key: Uint8Array };
}

/** The suite's descriptors, from a file that `buf build` wrote. */
export function readDescriptors(bytes: Uint8Array): FileRegistry {
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
}

export function messageOf(registry: FileRegistry, name: string): DescMessage {
  const found = registry.getMessage(`${PACKAGE}.${name}`);
  if (found === undefined) throw new Error(`${PACKAGE}.${name} is not among the suite's messages`);
  return found;
}

/** The service that the suite calls: it answers as each request asks it to, and tells what it saw. */
export function conformanceRoutes(registry: FileRegistry): (router: ConnectRouter) => void {
  const service = registry.getService(`${PACKAGE}.ConformanceService`) as DescService;
  const requestInfo = messageOf(registry, "ConformancePayload.RequestInfo");
  const schemas = new Map(service.methods.map((method) => [method.input.typeName, method.input]));

  function infoOf(context: HandlerContext, requests: readonly Message[], withHeaders: boolean): RequestInfo {
    const packed = requests.map((request) => anyPack(schemas.get(request.$typeName) as DescMessage, request));
    if (!withHeaders) return { requests: packed };
    const timeoutMs = timeoutOf(context.requestHeader);
    return {
      requests: packed,
      requestHeaders: [...context.requestHeader].map(([name, value]) => ({ name, value: [value] })),
      ...(timeoutMs === undefined ? {} : { timeoutMs: BigInt(timeoutMs) }),
      ...(context.requestMethod === "GET"
        ? {
            connectGetInfo: {
              queryParams: [...new URL(context.url).searchParams].map(([name, value]) => ({ name, value: [value] })),
            },
          }
        : {}),
    };
  }

  function failureOf(failure: Failure, info: RequestInfo | undefined): ConnectError {
    const error = new ConnectError(failure.message ?? "", failure.code);
    error.details = failure.details.map(({ typeUrl, value }) => ({
      type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
      value,
    }));
    if (info !== undefined) error.details.push({ desc: requestInfo, value: create(requestInfo, info) });
    return error;
  }

  async function answer(
    definition: UnaryDefinition | undefined,
    requests: readonly Message[],
    context: HandlerContext,
  ): Promise<Payload> {
    const info = infoOf(context, requests, true);
    setMetadata(definition, context);
    await pause(definition?.responseDelayMs ?? 0, context.signal);
    const response = definition?.response;
    if (response?.case === "error") throw failureOf(response.value, info);
    return { payload: { requestInfo: info, ...(response?.case === "responseData" ? { data: response.value } : {}) } };
  }

  async function* stream(
    definition: StreamDefinition | undefined,
    requests: readonly Message[],
    context: HandlerContext,
  ): AsyncGenerator<Payload> {
    const info = infoOf(context, requests, true);
    setMetadata(definition, context);
    let isFirst = true;
    for (const data of definition?.responseData ?? []) {
      await pause(definition?.responseDelayMs ?? 0, context.signal);
      yield { payload: isFirst ? { data, requestInfo: info } : { data } };
      isFirst = false;
    }
    if (definition?.error !== undefined) throw failureOf(definition.error, isFirst ? info : undefined);
  }

  async function* bidi(requests: AsyncIterable<StreamRequest>, context: HandlerContext): AsyncGenerator<Payload> {
    const received: StreamRequest[] = [];
    let definition: StreamDefinition | undefined;
    let sent = 0;
    for await (const request of requests) {
      received.push(request);
      if (received.length === 1) {
        definition = request.responseDefinition;
        setMetadata(definition, context);
      }
      if (received[0]?.fullDuplex !== true) continue;
      const data = definition?.responseData[sent];
      // A request for which there is no response.
      if (data === undefined) break;
      await pause(definition?.responseDelayMs ?? 0, context.signal);
      yield { payload: { data, requestInfo: infoOf(context, [request], sent === 0) } };
      sent += 1;
    }
    const isFullDuplex = received[0]?.fullDuplex === true;
    for (const data of definition?.responseData.slice(sent) ?? []) {
      await pause(definition?.responseDelayMs ?? 0, context.signal);
      yield {
        payload: !isFullDuplex && sent === 0 ? { data, requestInfo: infoOf(context, received, true) } : { data },
      };
      sent += 1;
    }
    if (definition?.error !== undefined)
      throw failureOf(definition.error, sent === 0 ? infoOf(context, received, true) : undefined);
  }

  const implementation = {
    unary: (request: UnaryRequest, context: HandlerContext) => answer(request.responseDefinition, [request], context),
    idempotentUnary: (request: UnaryRequest, context: HandlerContext) =>
      answer(request.responseDefinition, [request], context),
    async clientStream(requests: AsyncIterable<UnaryRequest>, context: HandlerContext) {
      const received: UnaryRequest[] = [];
      for await (const request of requests) received.push(request);
      return answer(received[0]?.responseDefinition, received, context);
    },
    serverStream: (request: StreamRequest, context: HandlerContext) =>
      stream(request.responseDefinition, [request], context),
    bidiStream: bidi,
  };
  // The methods' types are known only when it runs.
  return (router) => router.service(service, implementation as never);
}

const unitMs: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** What the request said: what is left of it depends on how busy the machine is. */
function timeoutOf(header: Headers): number | undefined {
  const connect = header.get("connect-timeout-ms");
  if (connect !== null) return Number(connect);
  const [, digits, unit] = /^(\d+)([HMSmun])$/.exec(header.get("grpc-timeout") ?? "") ?? [];
  return digits === undefined ? undefined : Math.trunc(Number(digits) * (unitMs[unit ?? ""] ?? Number.NaN));
}

function setMetadata(
  definition: Pick<UnaryDefinition, "responseHeaders" | "responseTrailers"> | undefined,
  context: HandlerContext,
): void {
  for (const { name, value } of definition?.responseHeaders ?? [])
    for (const each of value) context.responseHeader.append(name, each);
  for (const { name, value } of definition?.responseTrailers ?? [])
    for (const each of value) context.responseTrailer.append(name, each);
}

/** The suite asks for delays; a call that is cancelled, or whose deadline has passed, ends at once. */
function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  if (delayMs === 0) return Promise.resolve();
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, delayMs);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}
