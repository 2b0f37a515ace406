import http2 from "node:http2";
import { baseUrl } from "./serving-fixture.ts";

export interface RawAnswer {
  readonly httpStatus: number;
  /** gRPC status, from the trailers or a headers-only answer; undefined if there is none. */
  readonly grpcStatus: number | undefined;
  readonly grpcMessage: string;
  /** Headers, and trailers over them: of an answer without a message all are headers. */
  readonly metadata: http2.IncomingHttpHeaders;
  readonly body: Buffer;
}

export const PREDICT_PATH = "/dlrm.serving.v1.PredictionService/Predict";

/** gRPC's frame around a message. https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
export function frame(message: Uint8Array, flags = 0): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt8(flags, 0);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}

/** Trailers of a gRPC-web answer, which stand in a last frame of its body. */
function webTrailers(headers: http2.IncomingHttpHeaders, body: Buffer): Record<string, string> {
  if (!headers["content-type"]?.startsWith("application/grpc-web")) return {};
  const trailers: Record<string, string> = {};
  for (let at = 0; at + 5 <= body.length; at += 5 + body.readUInt32BE(at + 1)) {
    if (((body[at] as number) & 0x80) === 0) continue;
    for (const line of body.toString("latin1", at + 5, at + 5 + body.readUInt32BE(at + 1)).split("\r\n")) {
      const colon = line.indexOf(":");
      if (colon > 0) trailers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
    }
  }
  return trailers;
}

/** Connection to a server on which whatever bytes are wanted can be sent. */
export class RawHttp2Client implements AsyncDisposable {
  readonly #session: http2.ClientHttp2Session;

  constructor(port: number) {
    this.#session = http2.connect(baseUrl(port));
    this.#session.on("error", () => {});
  }

  /** A call whose body and end are the caller's. */
  open(headers: http2.OutgoingHttpHeaders = {}): http2.ClientHttp2Stream {
    return this.#session.request(
      { ":method": "POST", ":path": PREDICT_PATH, "content-type": "application/grpc", te: "trailers", ...headers },
      { endStream: false },
    );
  }

  call(body: Uint8Array, headers: http2.OutgoingHttpHeaders = {}): Promise<RawAnswer> {
    return this.finish(this.open(headers), body);
  }

  /** Sends the body of a call that was opened, or the rest of it. */
  finish(stream: http2.ClientHttp2Stream, body: Uint8Array): Promise<RawAnswer> {
    stream.end(body);
    return this.#answerOf(stream);
  }

  /** A call that sends the beginning of its body, and does not end it; resolves when the server has ended the call. */
  callUnfinished(beginning: Uint8Array, headers: http2.OutgoingHttpHeaders = {}): Promise<RawAnswer> {
    const stream = this.open(headers);
    if (beginning.length > 0) stream.write(beginning);
    return this.#answerOf(stream);
  }

  #answerOf(stream: http2.ClientHttp2Stream): Promise<RawAnswer> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let received: http2.IncomingHttpHeaders = {};
      let trailers: http2.IncomingHttpHeaders = {};
      stream.on("response", (response) => {
        received = response;
      });
      stream.on("trailers", (last) => {
        trailers = last;
      });
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", reject);
      stream.on("close", () => {
        const answer = Buffer.concat(chunks);
        const metadata = { ...received, ...trailers, ...webTrailers(received, answer) };
        const status = metadata["grpc-status"];
        resolve({
          httpStatus: Number(received[":status"]),
          grpcStatus: status === undefined ? undefined : Number(status),
          grpcMessage: decodeURIComponent(String(metadata["grpc-message"] ?? "")),
          metadata,
          body: answer,
        });
      });
    });
  }

  /** Resolves when the server has taken in what was sent before on this connection: it answers in order. */
  async settled(): Promise<void> {
    for (let round = 0; round < 3; round++) {
      const { grpcStatus } = await this.call(frame(new Uint8Array()), { ":path": "/grpc.health.v1.Health/Check" });
      if (grpcStatus !== 0) throw new Error(`health check: status ${grpcStatus}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A session that the server has ended already calls nobody back.
    if (this.#session.closed || this.#session.destroyed) return;
    await new Promise<void>((resolve) => {
      this.#session.close(resolve);
    });
  }
}
