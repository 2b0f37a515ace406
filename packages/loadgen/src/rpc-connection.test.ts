import {
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type Settings,
} from "node:http2";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { grpcFrame } from "./grpc-frame.ts";
import { GrpcStatus } from "./grpc-status.ts";
import { connectH2 } from "./h2-connection.ts";
import { connectNode } from "./node-connection.ts";
import { grpcTimeout, type RpcConnection, type RpcTarget } from "./rpc-connection.ts";

interface Answer {
  token: number;
  status: number;
  detail: string;
  bodyBytes: number;
}

type Handler = (stream: ServerHttp2Stream, body: Buffer, headers: Record<string, unknown>) => void;

let closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close();
});

async function serve(
  handler: Handler,
  settings: Settings = {},
): Promise<{ port: number; server: Http2Server; sessions: ServerHttp2Session[] }> {
  const server = createServer({ settings });
  const sessions: ServerHttp2Session[] = [];
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => {});
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => handler(stream, Buffer.concat(chunks), headers));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.close();
    for (const session of sessions) session.destroy();
  });
  return { port: (server.address() as AddressInfo).port, server, sessions };
}

function answerWith(
  stream: ServerHttp2Stream,
  trailers: Record<string, string>,
  body: Buffer = grpcFrame(Buffer.alloc(4)),
): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  stream.end(body);
}

const ok: Handler = (stream) => answerWith(stream, { "grpc-status": "0" });

describe.each([
  ["h2", connectH2],
  ["node", connectNode],
])("the %s client against node:http2", (kind, connect) => {
  class Client {
    readonly answers: Answer[] = [];
    readonly bodies = new Map<number, Buffer>();
    readonly log: string[] = [];
    connection!: RpcConnection;
    /** Settles once that many answers have come. */
    #waiting: { count: number; resolve: () => void } | undefined;
    readonly closed = Promise.withResolvers<string>();

    static async open(port: number, target: Partial<RpcTarget> = {}): Promise<Client> {
      const client = new Client();
      client.connection = await connect(
        { host: "127.0.0.1", port, path: "/test.Service/Method", ...target },
        {
          onAnswer: (token, status, detail, bodyBytes) => {
            client.answers.push({ token, status, detail, bodyBytes });
            client.log.push(`answer ${token}`);
            if (client.#waiting !== undefined && client.answers.length >= client.#waiting.count)
              client.#waiting.resolve();
          },
          onBody: (token, body) => client.bodies.set(token, body),
          onClosing: () => client.log.push("closing"),
          onClosed: (reason) => {
            client.log.push("closed");
            client.closed.resolve(reason);
          },
        },
      );
      closers.push(() => client.connection.close());
      return client;
    }

    async answered(count: number): Promise<Answer[]> {
      await new Promise<void>((resolve) => {
        this.#waiting = { count, resolve };
        if (this.answers.length >= count) resolve();
      });
      return this.answers;
    }
  }

  test("calls the method with the whole body and gets OK", async () => {
    const seen: { body: string; headers: Record<string, unknown> }[] = [];
    const { port } = await serve((stream, body, headers) => {
      seen.push({ body: body.toString("hex"), headers });
      ok(stream, body, headers);
    });
    const client = await Client.open(port, { deadlineMs: 1500 });
    client.connection.call(7, grpcFrame(Buffer.from("hello")));
    expect(await client.answered(1)).toEqual([{ token: 7, status: 0, detail: "", bodyBytes: 9 }]);
    expect(client.connection.outstanding).toBe(0);
    expect(seen[0]?.body).toBe(`0000000005${Buffer.from("hello").toString("hex")}`);
    expect(seen[0]?.headers).toMatchObject({
      ":method": "POST",
      ":scheme": "http",
      ":path": "/test.Service/Method",
      ":authority": `127.0.0.1:${port}`,
      te: "trailers",
      "content-type": "application/grpc",
      "grpc-timeout": "1500m",
    });
  });

  test("many calls at once are each answered once", async () => {
    const { port } = await serve(ok);
    const client = await Client.open(port);
    for (let token = 0; token < 500; token++) client.connection.call(token, grpcFrame(Buffer.alloc(300)));
    const answers = await client.answered(500);
    expect(answers.map((answer) => answer.token).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 500 }, (_, i) => i),
    );
    expect(answers.every((answer) => answer.status === 0 && answer.bodyBytes === 9)).toBe(true);
  });

  test("a request and a response far larger than every window come through whole", async () => {
    const large = Buffer.alloc(3_000_000, "0123456789abcdef");
    const { port } = await serve((stream, body) => answerWith(stream, { "grpc-status": "0" }, body));
    const client = await Client.open(port, { collectBodies: true });
    for (const token of [1, 2, 3]) client.connection.call(token, grpcFrame(large));
    expect((await client.answered(3)).map(({ status, bodyBytes }) => [status, bodyBytes])).toEqual(
      Array.from({ length: 3 }, () => [0, 3_000_005]),
    );
    for (const token of [1, 2, 3]) expect(client.bodies.get(token)?.equals(grpcFrame(large))).toBe(true);
  });

  test("a server with a window of one byte a stream is fed byte by byte", async () => {
    const { port } = await serve((stream, body) => answerWith(stream, { "grpc-status": "0" }, body), {
      initialWindowSize: 1,
    });
    const client = await Client.open(port, { collectBodies: true });
    for (const token of [1, 2]) client.connection.call(token, grpcFrame(Buffer.from("slowly")));
    await client.answered(2);
    expect(client.bodies.get(1)?.equals(grpcFrame(Buffer.from("slowly")))).toBe(true);
  });

  test("calls above the server's limit on concurrent streams wait for their turn", async () => {
    let open = 0;
    let most = 0;
    const { port } = await serve(
      (stream) => {
        most = Math.max(most, ++open);
        setImmediate(() => {
          open--;
          answerWith(stream, { "grpc-status": "0" });
        });
      },
      { maxConcurrentStreams: 3 },
    );
    const client = await Client.open(port);
    for (let token = 0; token < 30; token++) client.connection.call(token, grpcFrame(Buffer.alloc(10)));
    expect(client.connection.outstanding).toBe(30);
    expect((await client.answered(30)).every((answer) => answer.status === 0)).toBe(true);
    expect(most).toBeLessThanOrEqual(3);
  });

  test.each<[string, Handler, number, string]>([
    [
      "an error in trailers after headers",
      (stream) => answerWith(stream, { "grpc-status": "8", "grpc-message": "too%20many: 100%25" }, Buffer.alloc(0)),
      8,
      "too many: 100%",
    ],
    [
      "an error in a response of trailers only",
      (stream) => stream.respond({ ":status": 200, "grpc-status": "3", "grpc-message": "bad id" }, { endStream: true }),
      3,
      "bad id",
    ],
    [
      "an HTTP error without grpc-status",
      (stream) => stream.respond({ ":status": 503 }, { endStream: true }),
      GrpcStatus.unavailable,
      "HTTP status 503 without grpc-status",
    ],
    [
      "an HTTP error with a body",
      (stream) => {
        stream.respond({ ":status": 404, "content-type": "text/plain" });
        stream.end("no such page");
      },
      GrpcStatus.unimplemented,
      "HTTP status 404 without grpc-status",
    ],
    [
      "no grpc-status at all",
      (stream) => {
        stream.respond({ ":status": 200 });
        stream.end(grpcFrame(Buffer.alloc(4)));
      },
      GrpcStatus.internal,
      "the response ended without grpc-status",
    ],
    [
      "OK without a message",
      (stream) => stream.respond({ ":status": 200, "grpc-status": "0" }, { endStream: true }),
      GrpcStatus.internal,
      "the response has no message",
    ],
    [
      "a grpc-status that is no number",
      (stream) => stream.respond({ ":status": 200, "grpc-status": "five" }, { endStream: true }),
      GrpcStatus.unknown,
      "",
    ],
    ["a refused stream", (stream) => stream.close(7), GrpcStatus.unavailable, "the stream was reset: REFUSED_STREAM"],
    ["a cancelled stream", (stream) => stream.close(8), GrpcStatus.cancelled, "the stream was reset: CANCEL"],
    ["a reset stream", (stream) => stream.close(2), GrpcStatus.internal, "the stream was reset: INTERNAL_ERROR"],
  ])("%s fails the call and leaves the connection usable", async (_, handler, status, detail) => {
    let first = true;
    const { port } = await serve((stream, body, headers) => {
      (first ? handler : ok)(stream, body, headers);
      first = false;
    });
    const client = await Client.open(port);
    client.connection.call(1, grpcFrame(Buffer.alloc(10)));
    expect(await client.answered(1)).toMatchObject([{ token: 1, status, detail }]);
    client.connection.call(2, grpcFrame(Buffer.alloc(10)));
    expect((await client.answered(2))[1]).toMatchObject({ token: 2, status: 0 });
  });

  test("informational headers before the response are passed over", async () => {
    const { port } = await serve((stream, body, headers) => {
      stream.additionalHeaders({ ":status": 103, link: "</a>" });
      ok(stream, body, headers);
    });
    const client = await Client.open(port);
    client.connection.call(1, grpcFrame(Buffer.alloc(10)));
    expect(await client.answered(1)).toMatchObject([{ status: 0 }]);
  });

  test("header values of every byte that may be sent are decoded as sent", async () => {
    // Percent signs would be decoded; a leading or trailing space is not part of a value.
    const codes = Array.from({ length: 256 }, (_, i) => i).filter((i) => i > 0x20 && i !== 0x7f && i !== 0x25);
    const message = codes.map((code) => String.fromCharCode(code)).join("");
    const { port } = await serve((stream) => {
      stream.respond({ ":status": 200, "grpc-status": "9", "grpc-message": message }, { endStream: true });
    });
    const client = await Client.open(port);
    for (const token of [1, 2]) client.connection.call(token, grpcFrame(Buffer.alloc(1)));
    const details = (await client.answered(2)).map((answer) => answer.detail);
    // Node's own client reads header values as UTF-8.
    if (kind === "h2") expect(details).toEqual([message, message]);
    else expect(details).toHaveLength(2);
  });

  test("GOAWAY lets outstanding calls end, then the connection closes", async () => {
    const held: ServerHttp2Stream[] = [];
    const arrived = Promise.withResolvers<void>();
    const { port, sessions } = await serve((stream) => {
      held.push(stream);
      if (held.length === 2) arrived.resolve();
    });
    const client = await Client.open(port);
    client.connection.call(1, grpcFrame(Buffer.alloc(10)));
    client.connection.call(2, grpcFrame(Buffer.alloc(10)));
    await arrived.promise;
    sessions[0]?.close();
    for (const stream of held) answerWith(stream, { "grpc-status": "0" });
    await client.closed.promise;
    expect(client.answers.map(({ token, status }) => [token, status])).toEqual([
      [1, 0],
      [2, 0],
    ]);
    expect(client.log).toEqual(["closing", "answer 1", "answer 2", "closed"]);
  });

  test("a connection that is lost fails every outstanding call with UNAVAILABLE, after saying that it takes no more", async () => {
    const arrived = Promise.withResolvers<void>();
    const { port, sessions } = await serve(() => arrived.resolve());
    const client = await Client.open(port);
    client.connection.call(1, grpcFrame(Buffer.alloc(10)));
    await arrived.promise;
    sessions[0]?.socket.destroy();
    await client.closed.promise;
    expect(client.answers).toMatchObject([{ token: 1, status: GrpcStatus.unavailable }]);
    expect(client.answers[0]?.detail).not.toBe("");
    expect(client.log).toEqual(["closing", "answer 1", "closed"]);
  });

  test("close cancels what is outstanding, here and at the server", async () => {
    const arrived = Promise.withResolvers<ServerHttp2Stream>();
    const { port } = await serve((stream) => arrived.resolve(stream));
    const client = await Client.open(port);
    client.connection.call(1, grpcFrame(Buffer.alloc(10)));
    const stream = await arrived.promise;
    const gone = new Promise<void>((resolve) => stream.on("close", resolve));
    client.connection.close();
    await Promise.all([client.closed.promise, gone]);
    expect(client.answers).toMatchObject([{ token: 1, status: GrpcStatus.cancelled }]);
  });

  test("a port that nobody listens on is said", async () => {
    const server = createTcpServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    await expect(Client.open(port)).rejects.toMatchObject({
      code: "connect_failed",
      message: `cannot connect to 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}`,
    });
  });

  test("a server that speaks something else is said", async () => {
    const server = createTcpServer((socket) => socket.end("SSH-2.0-OpenSSH_9.2 and what else there is to say\r\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => server.close());
    await expect(Client.open((server.address() as AddressInfo).port)).rejects.toMatchObject({ code: "connect_failed" });
  });
});

test.each([
  [1, "1m"],
  [99_999_999, "99999999m"],
  [100_000_000, "100000S"],
  [100_000_001, "100001S"],
])("grpcTimeout(%d) is %s", (deadlineMs, text) => {
  expect(grpcTimeout(deadlineMs)).toBe(text);
});
