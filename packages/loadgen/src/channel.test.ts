import { describe, expect, test } from "vitest";
import { Channel } from "./channel.ts";
import { GrpcStatus } from "./grpc-status.ts";
import type { RpcConnection, RpcEvents } from "./rpc-connection.ts";

class FakeRpc implements RpcConnection {
  readonly calls: number[] = [];
  readonly events: RpcEvents;
  outstanding = 0;
  closedByUs = false;

  constructor(events: RpcEvents) {
    this.events = events;
  }

  call(token: number): void {
    this.calls.push(token);
  }

  close(): void {
    this.closedByUs = true;
  }
}

/** A channel whose connections are made or refused by the test, and whose pauses the test ends. */
function setUp(onAnswer: (token: number, status: number) => void = () => {}) {
  const connections: FakeRpc[] = [];
  const attempts: PromiseWithResolvers<RpcConnection>[] = [];
  const pauses: { run: () => void; delayMs: number; forgotten: boolean }[] = [];
  const answers: [token: number, status: number, detail: string][] = [];
  const channel = new Channel(
    (_, events) => {
      const attempt = Promise.withResolvers<RpcConnection>();
      attempts.push(attempt);
      connections.push(new FakeRpc(events));
      return attempt.promise;
    },
    { host: "h", port: 1, path: "/" },
    {
      onAnswer: (token, status, detail) => {
        answers.push([token, status, detail]);
        onAnswer(token, status);
      },
    },
    (run, delayMs) => {
      const pause = { run, delayMs, forgotten: false };
      pauses.push(pause);
      return () => {
        pause.forgotten = true;
      };
    },
  );
  const succeed = async (i: number): Promise<FakeRpc> => {
    const connection = connections[i] as FakeRpc;
    attempts[i]?.resolve(connection);
    await attempts[i]?.promise;
    await Promise.resolve();
    await Promise.resolve();
    return connection;
  };
  const refuse = async (i: number): Promise<void> => {
    attempts[i]?.reject(new Error("refused"));
    await attempts[i]?.promise.catch(() => {});
    await Promise.resolve();
    await Promise.resolve();
  };
  return { channel, connections, pauses, answers, succeed, refuse };
}

const frame = new Uint8Array(5);

describe("Channel", () => {
  test("rejects when the first connection fails, and makes no other attempt", async () => {
    const { channel, refuse, pauses } = setUp();
    await Promise.all([expect(channel.open()).rejects.toThrow("refused"), refuse(0)]);
    expect(pauses).toEqual([]);
  });

  test("connects anew at once when a connection goes, holds calls meanwhile, and sends each once", async () => {
    const { channel, connections, pauses, succeed, answers } = setUp();
    const opened = channel.open();
    const first = await succeed(0);
    await opened;
    channel.call(1, frame);
    first.events.onClosing();
    channel.call(2, frame);
    // The old connection still answers what it has.
    first.events.onAnswer(1, 0, "", 9);
    first.events.onClosed("gone");
    expect(pauses.map((pause) => pause.delayMs)).toEqual([0]);
    pauses[0]?.run();
    channel.call(3, frame);
    await succeed(1);
    expect(connections.map((connection) => connection.calls)).toEqual([[1], [2, 3]]);
    expect(answers).toEqual([[1, 0, ""]]);
    expect(channel.connects).toBe(2);
  });

  test("fails what waits once an attempt, with growing pauses; calls made from within wait for the next", async () => {
    const { channel, pauses, succeed, refuse, answers } = setUp((token, status) => {
      if (status !== 0) channel.call(token, frame);
    });
    const opened = channel.open();
    const first = await succeed(0);
    await opened;
    first.events.onClosing();
    channel.call(1, frame);
    for (let attempt = 0; attempt < 7; attempt++) {
      pauses[attempt]?.run();
      await refuse(attempt + 1);
    }
    expect(pauses.map((pause) => pause.delayMs)).toEqual([0, 50, 100, 200, 400, 800, 1000, 1000]);
    expect(answers).toEqual(Array.from({ length: 7 }, () => [1, GrpcStatus.unavailable, "refused"]));
    pauses[7]?.run();
    const back = await succeed(8);
    expect(back.calls).toEqual([1]);
    back.events.onClosing();
    expect(pauses.at(-1)?.delayMs).toBe(0);
  });

  test("close cancels what waits, closes connections that are leaving, and ends the attempts", async () => {
    const { channel, pauses, succeed, answers } = setUp();
    const opened = channel.open();
    const first = await succeed(0);
    await opened;
    first.events.onClosing();
    channel.call(4, frame);
    channel.close();
    channel.call(5, frame);
    expect(answers.map(([token, status]) => [token, status])).toEqual([
      [4, GrpcStatus.cancelled],
      [5, GrpcStatus.cancelled],
    ]);
    expect(first.closedByUs).toBe(true);
    expect(pauses[0]?.forgotten).toBe(true);
  });

  test("a connection that comes after close is closed", async () => {
    const { channel, connections, succeed } = setUp();
    const opened = channel.open();
    channel.close();
    await succeed(0);
    await opened;
    expect(connections[0]?.closedByUs).toBe(true);
  });
});
