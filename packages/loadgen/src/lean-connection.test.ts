import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { type FakeConnection, type FakeRequest, type FakeServer, startFakeServer } from "../test/fake-server.ts";
import { FrameFlag, FrameType } from "./frame.ts";
import { grpcFrame } from "./grpc-frame.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import { connectLean } from "./lean-connection.ts";
import type { RpcConnection } from "./rpc-connection.ts";

let servers: FakeServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

class Script {
  readonly answers: [token: number, status: number, detail: string, bodyBytes: number][] = [];
  readonly closed = Promise.withResolvers<string>();
  connection!: RpcConnection;
  peer!: FakeConnection;
  #next = Promise.withResolvers<void>();

  /** Connects to a fake server that hands every whole request to `onRequest`. */
  static async start(
    onRequest: (request: FakeRequest, script: Script) => void,
    onConnection: (connection: FakeConnection) => void = () => {},
  ): Promise<Script> {
    const script = new Script();
    const server = await startFakeServer((request) => onRequest(request, script), {
      onConnection: (connection) => {
        script.peer = connection;
        connection.keepFrames = true;
        onConnection(connection);
      },
    });
    servers.push(server);
    script.connection = await connectLean(
      { host: "127.0.0.1", port: server.port, path: "/a.B/C" },
      {
        onAnswer: (token, status, detail, bodyBytes) => {
          script.answers.push([token, status, detail, bodyBytes]);
          script.#next.resolve();
        },
        onClosing: () => {},
        onClosed: (reason) => script.closed.resolve(reason),
      },
    );
    return script;
  }

  async answered(count: number): Promise<void> {
    while (this.answers.length < count) {
      this.#next = Promise.withResolvers();
      await this.#next.promise;
    }
  }

  call(token: number, bytes: number = 10): void {
    this.connection.call(token, grpcFrame(Buffer.alloc(bytes)));
  }

  /** Frames that the server got of one type. */
  got(type: number): { flags: number; streamId: number; payload: Buffer }[] {
    return this.peer.received.filter((frame) => frame.type === type);
  }
}

const answerOk = ({ connection, streamId }: FakeRequest): void => connection.answer(streamId);

describe("the lean client at the frame level", () => {
  test("answers PING with its bytes, and not the acknowledgement of one", async () => {
    const script = await Script.start(({ connection, streamId }) => {
      connection.writer.header(8, FrameType.ping, 0, 0);
      connection.writer.bytes(Buffer.from("12345678"));
      connection.writer.header(8, FrameType.ping, FrameFlag.ack, 0);
      connection.writer.bytes(Buffer.from("87654321"));
      connection.answer(streamId);
    });
    script.call(1);
    await script.answered(1);
    script.call(2);
    await script.answered(2);
    expect(script.got(FrameType.ping)).toMatchObject([{ flags: FrameFlag.ack, streamId: 0 }]);
    expect(script.got(FrameType.ping)[0]?.payload.toString()).toBe("12345678");
  });

  test("acknowledges SETTINGS and turns push off", async () => {
    const script = await Script.start(answerOk);
    script.call(1);
    await script.answered(1);
    const settings = script.got(FrameType.settings);
    expect(settings[0]?.payload.subarray(0, 6).toString("hex")).toBe("000200000000");
    expect(settings.filter((frame) => frame.flags === FrameFlag.ack)).toHaveLength(1);
  });

  test("takes padding, priority, CONTINUATION and unknown frames in a response", async () => {
    const headers = encodeHeaderBlock([
      [":status", "200"],
      ["content-type", "application/grpc"],
    ]);
    const trailers = encodeHeaderBlock([["grpc-status", "0"]]);
    const script = await Script.start(({ connection: { writer }, streamId }) => {
      writer.header(3, 0x77, 0xff, streamId);
      writer.bytes(Buffer.from("abc"));
      // HEADERS: 2 bytes of padding, a priority, the first 4 bytes of the block.
      writer.header(1 + 5 + 4 + 2, FrameType.headers, FrameFlag.padded | FrameFlag.priority, streamId);
      writer.bytes(Buffer.from([2, 0, 0, 0, 0, 16]));
      writer.bytes(headers, 0, 4);
      writer.bytes(Buffer.alloc(2));
      writer.header(0, FrameType.continuation, 0, streamId);
      writer.header(headers.length - 4, FrameType.continuation, FrameFlag.endHeaders, streamId);
      writer.bytes(headers, 4);
      // DATA: 3 bytes of padding around a message of 4.
      writer.header(1 + 9 + 3, FrameType.data, FrameFlag.padded, streamId);
      writer.bytes(Buffer.from([3, 0, 0, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0]));
      writer.header(trailers.length, FrameType.headers, FrameFlag.endHeaders | FrameFlag.endStream, streamId);
      writer.bytes(trailers);
    });
    script.call(5);
    await script.answered(1);
    expect(script.answers).toEqual([[5, 0, "", 9]]);
  });

  test("decodes header blocks of calls that are over, so that the dynamic table stays in step", async () => {
    let first = true;
    const script = await Script.start(({ connection, streamId }) => {
      const { writer } = connection;
      if (first) {
        first = false;
        connection.answer(streamId, 0);
        // Late trailers of the same stream put grpc-status: 5 into the table.
        const late = Buffer.from("400b677270632d7374617475730135", "hex");
        writer.header(late.length, FrameType.headers, FrameFlag.endHeaders | FrameFlag.endStream, streamId);
        writer.bytes(late);
        return;
      }
      writer.header(2, FrameType.headers, FrameFlag.endHeaders | FrameFlag.endStream, streamId);
      writer.bytes(Buffer.from("88be", "hex"));
    });
    script.call(1);
    await script.answered(1);
    script.call(2);
    await script.answered(2);
    expect(script.answers[1]).toEqual([2, 5, "", 0]);
  });

  test("sends no more than the connection's window, and goes on with credit", async () => {
    let arrived = 0;
    const script = await Script.start(
      (request) => request.connection.answer(request.streamId, 0, "", 20),
      // Undoes the fake server's generous start: streams may have 10 bytes.
      (connection) => connection.writer.settings([[4, 10]]),
    );
    const dataBytes = (): number => script.got(FrameType.data).reduce((sum, frame) => sum + frame.payload.length, 0);
    script.call(1, 20);
    script.peer.socket.on("data", () => {
      if (dataBytes() === arrived) return;
      arrived = dataBytes();
      // 10 bytes at first, then as much as each credit allows.
      script.peer.writer.windowUpdate(1, 6);
      script.peer.flush();
    });
    await script.answered(1);
    expect(script.got(FrameType.data).map((frame) => frame.payload.length)).toEqual([10, 6, 6, 3]);
    expect(script.got(FrameType.data).map((frame) => frame.flags)).toEqual([0, 0, 0, FrameFlag.endStream]);
  });

  test("a window that SETTINGS shrinks below zero must be filled up before more is sent", async () => {
    const script = await Script.start(answerOk, (connection) => connection.writer.settings([[4, 10]]));
    script.call(1, 20);
    let step = 0;
    script.peer.socket.on("data", () => {
      const sent = script.got(FrameType.data).length;
      if (step === 0 && sent === 1) {
        step = 1;
        // 10 of 25 bytes are sent: 0 - 10 + 4 makes the window -6; 10 more make it 4.
        script.peer.writer.settings([[4, 4]]);
        script.peer.writer.windowUpdate(1, 10);
        script.peer.flush();
      } else if (step === 1 && sent === 2) {
        step = 2;
        script.peer.writer.windowUpdate(1, 100);
        script.peer.flush();
      }
    });
    await script.answered(1);
    expect(script.got(FrameType.data).map((frame) => frame.payload.length)).toEqual([10, 4, 11]);
  });

  test("a stream whose window is shut does not hold up the next", async () => {
    const script = await Script.start(
      (request) => {
        if (request.streamId === 3) request.connection.writer.windowUpdate(1, 1000);
        request.connection.answer(request.streamId);
      },
      (connection) => connection.writer.settings([[4, 15]]),
    );
    script.call(1, 100);
    script.call(2, 10);
    await script.answered(2);
    expect(script.answers.map(([token]) => token)).toEqual([2, 1]);
  });

  test("an answer before the request is sent whole ends the call and resets the stream", async () => {
    const script = await Script.start(answerOk, (connection) => connection.writer.settings([[4, 10]]));
    script.peer.socket.on("data", () => {
      if (script.got(FrameType.data).length !== 1) return;
      script.peer.answer(1, 8, "too large");
      script.peer.flush();
    });
    script.call(1, 100);
    await script.answered(1);
    expect(script.answers).toEqual([[1, 8, "too large", 0]]);
    script.call(2, 1);
    await script.answered(2);
    expect(script.got(FrameType.rstStream)).toMatchObject([{ streamId: 1 }]);
  });

  test("GOAWAY fails at once the calls that the server will not process", async () => {
    const script = await Script.start(({ connection, streamId }) => {
      if (streamId !== 5) return;
      connection.writer.goAway(1, 11);
      connection.answer(1);
    });
    for (const token of [1, 2, 3]) script.call(token);
    await script.closed.promise;
    const detail = "the server sent GOAWAY: ENHANCE_YOUR_CALM";
    expect(script.answers).toEqual([
      [2, 14, detail, 0],
      [3, 14, detail, 0],
      [1, 0, "", 14],
    ]);
  });

  test("gives credit back for a long response before its window is used up", async () => {
    const script = await Script.start(({ connection, streamId }) => {
      const { writer } = connection;
      writer.header(1, FrameType.headers, FrameFlag.endHeaders, streamId);
      writer.bytes(Buffer.of(0x88));
      // Exactly the stream's window: 64 frames of 16 KiB.
      for (let i = 0; i < 64; i++) {
        writer.header(16_384, FrameType.data, i === 63 ? FrameFlag.endStream : 0, streamId);
        writer.bytes(Buffer.alloc(16_384));
      }
    });
    script.call(1);
    await script.answered(1);
    expect(script.answers[0]?.[3]).toBe(1_048_576);
    script.call(2);
    await script.answered(2);
    const credit = script.got(FrameType.windowUpdate).filter((frame) => frame.streamId === 1);
    expect(credit.map((frame) => frame.payload.readUInt32BE())).toEqual([524_288]);
  });

  test.each<[string, (connection: FakeConnection) => void, string]>([
    ["a frame that is too large", ({ writer }) => writer.header(16_385, 0, 0, 1), "FRAME_SIZE_ERROR"],
    ["DATA on stream 0", ({ writer }) => writer.header(0, FrameType.data, 0, 0), "PROTOCOL_ERROR: DATA on stream 0"],
    ["DATA on a stream never opened", ({ writer }) => writer.header(0, 0, 0, 99), "PROTOCOL_ERROR: DATA on stream 99"],
    [
      "HEADERS on a stream of the server's",
      ({ writer }) => writer.header(0, 1, 4, 2),
      "PROTOCOL_ERROR: HEADERS on stream 2",
    ],
    ["PUSH_PROMISE", ({ writer }) => writer.header(0, FrameType.pushPromise, 4, 1), "push is off"],
    [
      "CONTINUATION alone",
      ({ writer }) => writer.header(0, FrameType.continuation, 4, 1),
      "CONTINUATION without HEADERS",
    ],
    [
      "a header block that is interrupted",
      ({ writer }) => {
        writer.header(0, FrameType.headers, 0, 1);
        writer.header(0, FrameType.settings, 0, 0);
      },
      "interrupted",
    ],
    [
      "a header block without end",
      ({ writer }) => {
        writer.header(0, FrameType.headers, 0, 1);
        for (let i = 0; i < 5; i++) {
          writer.header(16_000, FrameType.continuation, 0, 1);
          writer.bytes(Buffer.alloc(16_000));
        }
      },
      "ENHANCE_YOUR_CALM",
    ],
    [
      "PING of 7 bytes",
      ({ writer }) => (writer.header(7, FrameType.ping, 0, 0), writer.bytes(Buffer.alloc(7))),
      "FRAME_SIZE_ERROR: PING",
    ],
    [
      "SETTINGS of 5 bytes",
      ({ writer }) => (writer.header(5, 4, 0, 0), writer.bytes(Buffer.alloc(5))),
      "FRAME_SIZE_ERROR: SETTINGS",
    ],
    ["a window that grows too large", ({ writer }) => writer.windowUpdate(0, 0x7fff_ffff), "FLOW_CONTROL_ERROR"],
    ["a window update of 0", ({ writer }) => writer.windowUpdate(1, 0), "PROTOCOL_ERROR: WINDOW_UPDATE by 0"],
    [
      "a frame size below the minimum",
      ({ writer }) => writer.settings([[5, 16_383]]),
      "SETTINGS_MAX_FRAME_SIZE is 16383",
    ],
    [
      "a header block that cannot be decoded",
      ({ writer }) => (writer.header(1, 1, 4, 1), writer.bytes(Buffer.of(0x80))),
      "COMPRESSION_ERROR",
    ],
    [
      "RST_STREAM of 0 bytes",
      ({ writer }) => writer.header(0, FrameType.rstStream, 0, 1),
      "FRAME_SIZE_ERROR: RST_STREAM",
    ],
    [
      "more padding than payload",
      ({ writer }) => (writer.header(2, 0, 8, 1), writer.bytes(Buffer.of(2, 0))),
      "more padding than payload",
    ],
  ])("%s ends the connection, with GOAWAY and every call answered", async (_, misbehave, message) => {
    const script = await Script.start(({ connection }) => misbehave(connection));
    const gone = new Promise<void>((resolve) => script.peer.socket.on("close", () => resolve()));
    script.call(1);
    script.answers.length = 0;
    expect(await script.closed.promise).toContain(message);
    await gone;
    expect(script.answers).toHaveLength(1);
    expect(script.answers[0]?.slice(0, 2)).toEqual([1, 14]);
    expect(script.answers[0]?.[2]).toContain(message);
    expect(script.got(FrameType.goAway)).toHaveLength(1);
  });

  test("whatever bytes a server sends, each call is answered exactly once", async () => {
    const frame = fc.record({
      type: fc.constantFrom(0, 1, 2, 3, 4, 6, 7, 8, 9, 42),
      flags: fc.constantFrom(0, 1, 4, 5, 8, 9, 0x2d),
      streamId: fc.constantFrom(0, 1, 3, 5),
      payload: fc.oneof(
        fc.uint8Array({ maxLength: 12 }),
        fc.constantFrom(Buffer.from("88", "hex"), Buffer.alloc(4), Buffer.alloc(8), Buffer.from("00000001", "hex")),
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: 8 }), async (frames) => {
        const script = await Script.start(({ connection, streamId }) => {
          if (streamId !== 5) return;
          for (const { type, flags, streamId: id, payload } of frames) {
            connection.writer.header(payload.length, type, flags, id);
            connection.writer.bytes(payload);
          }
          connection.flush();
          connection.socket.end();
        });
        for (const token of [1, 2, 3]) script.call(token);
        await script.closed.promise;
        expect(script.answers.map(([token]) => token).sort((a, b) => a - b)).toEqual([1, 2, 3]);
        await servers.pop()?.close();
      }),
      { numRuns: 60 },
    );
  });
});
