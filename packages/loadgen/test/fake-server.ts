import { createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { FrameFlag, FrameType } from "../src/frame.ts";
import { FrameReader } from "../src/frame-reader.ts";
import { FrameWriter } from "../src/frame-writer.ts";
import { encodeHeaderBlock } from "../src/hpack-encoder.ts";

/** A request that has arrived whole at the fake server. */
export interface FakeRequest {
  readonly connection: FakeConnection;
  readonly streamId: number;
  readonly bodyBytes: number;
}

/** One connection at the server's side, for tests that want to send frames of their own. */
export class FakeConnection {
  readonly socket: Socket;
  readonly writer: FrameWriter = new FrameWriter();
  readonly bodies: Map<number, number> = new Map();
  /** Frames received, as `type:streamId`, for assertions. */
  readonly received: { type: number; flags: number; streamId: number; payload: Buffer }[] = [];
  keepFrames = false;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  flush(): void {
    if (this.writer.length === 0 || this.socket.destroyed) return;
    this.socket.write(this.writer.take());
    if (this.socket.writableLength === 0) this.writer.reset();
    else this.writer.replace();
  }

  /** A whole answer: headers, one message of `messageBytes`, trailers. */
  answer(streamId: number, status: number = 0, message: string = "", messageBytes: number = 9): void {
    if (status === 0 && message === "" && messageBytes === 9) {
      const at = this.writer.length;
      this.writer.bytes(OK_ANSWER);
      const written = this.writer.take();
      for (const frameAt of OK_ANSWER_FRAMES) written.writeUInt32BE(streamId, at + frameAt + 5);
      return;
    }
    this.writer.header(RESPONSE_HEADERS.length, FrameType.headers, FrameFlag.endHeaders, streamId);
    this.writer.bytes(RESPONSE_HEADERS);
    if (status === 0) {
      this.writer.header(5 + messageBytes, FrameType.data, 0, streamId);
      this.writer.bytes(Buffer.from([0, 0, 0, messageBytes >> 8, messageBytes & 255]));
      this.writer.bytes(Buffer.alloc(messageBytes));
    }
    const trailers =
      status === 0 && message === ""
        ? OK_TRAILERS
        : encodeHeaderBlock([
            ["grpc-status", String(status)],
            ["grpc-message", message],
          ]);
    this.writer.header(trailers.length, FrameType.headers, FrameFlag.endHeaders | FrameFlag.endStream, streamId);
    this.writer.bytes(trailers);
  }
}

const RESPONSE_HEADERS = encodeHeaderBlock([
  [":status", "200"],
  ["content-type", "application/grpc"],
]);
const OK_TRAILERS = encodeHeaderBlock([["grpc-status", "0"]]);

/** The most frequent answer, made once; the stream id of each frame is put in later. */
const OK_ANSWER_WRITER = new FrameWriter();
OK_ANSWER_WRITER.header(RESPONSE_HEADERS.length, FrameType.headers, FrameFlag.endHeaders, 0);
OK_ANSWER_WRITER.bytes(RESPONSE_HEADERS);
OK_ANSWER_WRITER.header(14, FrameType.data, 0, 0);
OK_ANSWER_WRITER.bytes(Buffer.from([0, 0, 0, 0, 9, ...Buffer.alloc(9)]));
OK_ANSWER_WRITER.header(OK_TRAILERS.length, FrameType.headers, FrameFlag.endHeaders | FrameFlag.endStream, 0);
OK_ANSWER_WRITER.bytes(OK_TRAILERS);
const OK_ANSWER = Buffer.from(OK_ANSWER_WRITER.take());
const OK_ANSWER_FRAMES = [0, 9 + RESPONSE_HEADERS.length, 9 + RESPONSE_HEADERS.length + 9 + 14];

export interface FakeServer {
  readonly port: number;
  readonly server: Server;
  readonly connections: readonly FakeConnection[];
  close(): Promise<void>;
}

/**
 * A gRPC server of a few lines that answers by `onRequest` (called with each request once it has arrived whole; what it
 * writes is flushed after the read). It gives flow-control credit at once and without bound.
 */
export async function startFakeServer(
  onRequest: (request: FakeRequest) => void,
  options: { readonly onConnection?: (connection: FakeConnection) => void; readonly silent?: boolean } = {},
): Promise<FakeServer> {
  const connections: FakeConnection[] = [];
  const server = createServer({ noDelay: true }, (socket) => {
    const connection = new FakeConnection(socket);
    connections.push(connection);
    socket.on("error", () => {});
    let prefaceLeft = 24;
    const reader = new FrameReader({
      onFrame: (type, flags, streamId, buffer, start, end) => {
        if (connection.keepFrames) {
          connection.received.push({ type, flags, streamId, payload: Buffer.from(buffer.subarray(start, end)) });
        }
        if (type === FrameType.settings && (flags & FrameFlag.ack) === 0) connection.writer.settingsAck();
        if (type === FrameType.rstStream) connection.bodies.delete(streamId);
        if (type !== FrameType.data) return;
        const bodyBytes = (connection.bodies.get(streamId) ?? 0) + end - start;
        connection.bodies.set(streamId, bodyBytes);
        if ((flags & FrameFlag.endStream) === 0) return;
        connection.bodies.delete(streamId);
        onRequest({ connection, streamId, bodyBytes });
      },
    });
    socket.on("data", (chunk: Buffer) => {
      const skip = Math.min(prefaceLeft, chunk.length);
      prefaceLeft -= skip;
      reader.push(chunk.subarray(skip));
      connection.flush();
    });
    if (options.silent === true) return;
    connection.writer.settings([[4, 0x7fff_ffff]]);
    connection.writer.windowUpdate(0, 0x7fff_ffff - 65_535);
    options.onConnection?.(connection);
    connection.flush();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    server,
    connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const { socket } of connections) socket.destroy();
      }),
  };
}
