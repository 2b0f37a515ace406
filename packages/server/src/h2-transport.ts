import type { RequestListener } from "node:http";
import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { createServer, encodeHeaderBlock, type Http2Server, type Http2Stream, type StreamHandler } from "@dlrm/h2";
import { createConnectHandler } from "@dlrm/h2/connect";
import { grpcUnimplementedBlock } from "./grpc-blocks.ts";
import type { ActiveRequest } from "./request-activity.ts";
import { interceptRequestMessage } from "./request-message.ts";
import { readsStream } from "./rpc-handlers.ts";
import { BAD_AUTHORITY, isUsableAuthority, noSuchMethod } from "./rpc-listener.ts";
import type { ListenOptions, Transport, TransportLimits } from "./transport.ts";

/** Flow-control window of a stream: a request of this size needs no round trip to be sent. */
const STREAM_WINDOW_BYTES = 1024 * 1024;
/** Flow-control window of a connection: many streams share it. */
const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;

export interface H2TransportOptions {
  /** Gets every HTTP/2 request first; takes it, or leaves it to the handlers. */
  readonly onStream: (stream: Http2Stream) => StreamHandler | undefined;
  readonly handlers: readonly UniversalHandler[];
  readonly onHttp1Request: RequestListener;
  /** Largest request message, bytes, compressed and not. */
  readonly maxMessageBytes: () => number;
  /** Called when a request has come, and with the service it is for; what it returns leaves when the request is over. */
  readonly onRequest: (service: string) => ActiveRequest;
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
      handlers: options.handlers.map((handler) => readingMessages(handler, options)),
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

/** The handler, with its message read by us, and its calls told to `onRequest`. */
function readingMessages(handler: UniversalHandler, options: H2TransportOptions): UniversalHandler {
  const { maxMessageBytes, onRequest } = options;
  const isStream = readsStream(handler);
  const handle = async (request: UniversalServerRequest): Promise<UniversalServerResponse> => {
    const active = onRequest(handler.service.typeName);
    try {
      const answer = await handler(isStream ? request : interceptRequestMessage(request, active, maxMessageBytes()));
      if (answer.body !== undefined) return { ...answer, body: leavingAfter(answer.body, active) };
      active.leave();
      return answer;
    } catch (error) {
      active.leave();
      throw error;
    }
  };
  return Object.assign(handle, handler);
}

async function* leavingAfter(body: AsyncIterable<Uint8Array>, active: ActiveRequest): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } finally {
    active.leave();
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
