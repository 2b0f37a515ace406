import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { encodeHeaderBlock } from "@dlrm/h2";
import { type Frame, frame, FrameCutter, FrameFlag, FrameType, settings, uint32 } from "./frames.ts";

/** A request that has arrived whole at the fake server. */
export interface FakeRequest {
  readonly connection: FakeConnection;
  readonly streamId: number;
  readonly bodyBytes: number;
}

const PREFACE_BYTES = 24;
const END_HEADERS = FrameFlag.endHeaders;
const RESPONSE_HEADERS = encodeHeaderBlock([
  [":status", "200"],
  ["content-type", "application/grpc"],
]);

function grpcAnswer(streamId: number, status: number, message: string, messageBytes: number): Buffer {
  const trailers = encodeHeaderBlock(
    message === ""
      ? [["grpc-status", String(status)]]
      : [
          ["grpc-status", String(status)],
          ["grpc-message", message],
        ],
  );
  const body = Buffer.concat([Buffer.from([0]), uint32(messageBytes), Buffer.alloc(messageBytes)]);
  return Buffer.concat([
    frame(FrameType.headers, END_HEADERS, streamId, RESPONSE_HEADERS),
    ...(status === 0 ? [frame(FrameType.data, 0, streamId, body)] : []),
    frame(FrameType.headers, END_HEADERS | FrameFlag.endStream, streamId, trailers),
  ]);
}

/** The most frequent answer, made once; the stream id of each frame is put in later. */
const OK_MESSAGE_BYTES = 9;
const OK_ANSWER = grpcAnswer(0, 0, "", OK_MESSAGE_BYTES);
const OK_DATA_AT = 9 + RESPONSE_HEADERS.length;
const OK_ANSWER_FRAMES = [0, OK_DATA_AT, OK_DATA_AT + 9 + 5 + OK_MESSAGE_BYTES];

/** One connection at the server's side, for tests that want to send frames of their own. */
export class FakeConnection {
  readonly socket: Socket;
  /** Frames received, where `keepFrames` is set before. */
  readonly received: Frame[] = [];
  keepFrames = false;
  #unsent: Buffer[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
  }

  /** Goes out with the next `flush`, which is at the end of a read. */
  send(...frames: Buffer[]): void {
    this.#unsent.push(...frames);
  }

  flush(): void {
    const [only, ...others] = this.#unsent;
    if (only === undefined || this.socket.destroyed) return;
    this.socket.write(others.length === 0 ? only : Buffer.concat(this.#unsent));
    this.#unsent = [];
  }

  /** A whole answer: headers, one message of `messageBytes`, trailers. */
  answer(streamId: number, status: number = 0, message: string = "", messageBytes: number = OK_MESSAGE_BYTES): void {
    if (status !== 0 || message !== "" || messageBytes !== OK_MESSAGE_BYTES) {
      this.send(grpcAnswer(streamId, status, message, messageBytes));
      return;
    }
    const answer = Buffer.from(OK_ANSWER);
    for (const at of OK_ANSWER_FRAMES) answer.writeUInt32BE(streamId, at + 5);
    this.send(answer);
  }
}

export interface FakeServer {
  readonly port: number;
  readonly server: Server;
  readonly connections: readonly FakeConnection[];
  close(): Promise<void>;
}

/**
 * A gRPC server of a few lines that answers by `onRequest` (called with each request once it has arrived whole; what it
 * sends is flushed after the read). It gives flow-control credit at once and without bound.
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
    let prefaceLeft = PREFACE_BYTES;
    const bodies = new Map<number, number>();
    const cutter = new FrameCutter();
    const onFrame = (received: Frame): void => {
      const { type, flags, streamId, payload } = received;
      if (connection.keepFrames) connection.received.push({ ...received, payload: Buffer.from(payload) });
      const acknowledged = (flags & FrameFlag.ack) !== 0;
      if (type === FrameType.settings && !acknowledged) connection.send(frame(FrameType.settings, FrameFlag.ack, 0));
      if (type === FrameType.ping && !acknowledged) connection.send(frame(FrameType.ping, FrameFlag.ack, 0, payload));
      if (type === FrameType.rstStream) bodies.delete(streamId);
      if (type !== FrameType.data) return;
      const bodyBytes = (bodies.get(streamId) ?? 0) + payload.length;
      bodies.set(streamId, bodyBytes);
      if ((flags & FrameFlag.endStream) === 0) return;
      bodies.delete(streamId);
      onRequest({ connection, streamId, bodyBytes });
    };
    socket.on("data", (chunk: Buffer) => {
      if (options.silent === true) return;
      const skip = Math.min(prefaceLeft, chunk.length);
      prefaceLeft -= skip;
      cutter.push(chunk.subarray(skip), onFrame);
      connection.flush();
    });
    if (options.silent === true) return;
    connection.send(settings([[4, 0x7fff_ffff]]), frame(FrameType.windowUpdate, 0, 0, uint32(0x7fff_ffff - 65_535)));
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
