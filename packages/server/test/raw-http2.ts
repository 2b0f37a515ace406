import http2 from "node:http2";
import { baseUrl } from "./serving-fixture.ts";

export interface RawAnswer {
  readonly httpStatus: number;
  /** gRPC status, from the trailers or a headers-only answer; undefined if there is none. */
  readonly grpcStatus: number | undefined;
  readonly grpcMessage: string;
  readonly headers: http2.IncomingHttpHeaders;
  readonly trailers: http2.IncomingHttpHeaders;
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

/** Connection to a server on which whatever bytes are wanted can be sent. */
export class RawHttp2Client implements AsyncDisposable {
  readonly #session: http2.ClientHttp2Session;

  constructor(port: number) {
    this.#session = http2.connect(baseUrl(port));
    this.#session.on("error", () => {});
  }

  call(body: Uint8Array, headers: http2.OutgoingHttpHeaders = {}): Promise<RawAnswer> {
    return new Promise((resolve, reject) => {
      const stream = this.#session.request({
        ":method": "POST",
        ":path": PREDICT_PATH,
        "content-type": "application/grpc",
        te: "trailers",
        ...headers,
      });
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
        const status = trailers["grpc-status"] ?? received["grpc-status"];
        resolve({
          httpStatus: Number(received[":status"]),
          grpcStatus: status === undefined ? undefined : Number(status),
          grpcMessage: decodeURIComponent(String(trailers["grpc-message"] ?? received["grpc-message"] ?? "")),
          headers: received,
          trailers,
          body: Buffer.concat(chunks),
        });
      });
      stream.end(body);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#session.close(resolve);
    });
  }
}
