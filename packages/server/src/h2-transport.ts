import type { RequestListener } from "node:http";
import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { createServer, encodeHeaderBlock, type Http2Server, type Http2Stream, type StreamHandler } from "@dlrm/h2";
import { createConnectHandler } from "@dlrm/h2/connect";
import { grpcUnimplementedBlock } from "./grpc-blocks.ts";
import type { BeginRpcCall } from "./rpc-call.ts";
import { BAD_AUTHORITY, isUsableAuthority, noSuchMethod } from "./rpc-listener.ts";
import {
  type ListenOptions,
  MAX_INCOMPLETE_BYTES_PER_CONNECTION,
  type Transport,
  type TransportLimits,
} from "./transport.ts";

/** Flow-control window of a stream: a request of this size needs no round trip to be sent. */
const STREAM_WINDOW_BYTES = 1024 * 1024;
/** Flow-control window of a connection: many streams share it. */
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;

export interface H2TransportOptions {
  /** Gets every HTTP/2 request first; takes it, or leaves it to the handlers. */
  readonly onStream: (stream: Http2Stream) => StreamHandler | undefined;
  readonly handlers: readonly UniversalHandler[];
  readonly onHttp1Request: RequestListener;
  readonly beginCall: BeginRpcCall;
  /** A request failed in a way that its caller cannot be told of any more. */
  readonly onFailure: (error: unknown, path: string) => void;
  readonly limits: TransportLimits;
}

const discard: StreamHandler = { body: "pieces" };

/** `--transport h2`: `@dlrm/h2` for HTTP/2, and node:http for HTTP/1.1, on one port. */
export class H2Transport implements Transport {
  readonly #server: Http2Server;

  constructor(options: H2TransportOptions) {
    const { onStream, onHttp1Request, onFailure, limits } = options;
    const connect = createConnectHandler({
      handlers: options.handlers.map((handler) => beginningCalls(handler, options.beginCall)),
      fallback: answerUnknown,
      onFailure,
    });
    this.#server = createServer({
      onRequest: (stream) => {
        const taken = onStream(stream);
        if (taken !== undefined) return taken;
        // Connect needs an authority to make a URL of, whatever it is: a missing or malformed one is no reason to fail.
        const authority = stream.headers?.get(":authority") ?? stream.headers?.get("host");
        return isUsableAuthority(authority) ? connect(stream) : answerPlain(stream, 400, BAD_AUTHORITY);
      },
      onHttp1Request,
      onHandlerError: (cause) => onFailure(cause, ""),
      maxConnections: limits.maxConnections,
      limits: {
        maxConcurrentStreams: limits.maxStreamsPerConnection,
        maxHeaderListBytes: limits.maxHeaderBytes,
        streamWindowBytes: STREAM_WINDOW_BYTES,
        connectionWindowBytes: CONNECTION_WINDOW_BYTES,
        maxBufferedBytes: MAX_INCOMPLETE_BYTES_PER_CONNECTION,
      },
    });
  }

  async listen(host: string, port: number, { reusePort = false }: ListenOptions = {}): Promise<number> {
    return await this.#server.listen({ host, port, reusePort });
  }

  async close(): Promise<void> {
    await this.#server.drain();
  }

  destroy(): void {
    void this.#server.close();
  }
}

/** The handler, with its calls told to `beginCall`. */
function beginningCalls(handler: UniversalHandler, beginCall: BeginRpcCall): UniversalHandler {
  const handle = async (request: UniversalServerRequest): Promise<UniversalServerResponse> => {
    const call = beginCall(handler, request);
    try {
      const answer = await handler(call.request);
      if (answer.body !== undefined) return { ...answer, body: endingAfter(answer.body, call.end) };
      call.end();
      return answer;
    } catch (error) {
      call.end();
      throw error;
    }
  };
  return Object.assign(handle, handler);
}

async function* endingAfter(body: AsyncIterable<Uint8Array>, end: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } finally {
    end();
  }
}

function answerUnknown(stream: Http2Stream): StreamHandler {
  const path = (stream.headers?.get(":path") ?? "").split("?", 1)[0] as string;
  const message = noSuchMethod(path);
  if (!/^application\/grpc/iu.test(stream.headers?.get("content-type") ?? "")) return answerPlain(stream, 404, message);
  stream.respond(grpcUnimplementedBlock(message));
  return discard;
}

function answerPlain(stream: Http2Stream, status: number, message: string): StreamHandler {
  const head = encodeHeaderBlock([
    [":status", String(status)],
    ["content-type", "text/plain; charset=utf-8"],
  ]);
  stream.respond(head, Buffer.from(`${message}\n`));
  return discard;
}
