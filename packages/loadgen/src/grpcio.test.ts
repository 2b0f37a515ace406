import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { grpcFrame } from "./grpc-frame.ts";
import { grpcStatusName } from "./grpc-status.ts";
import { connectH2 } from "./h2-connection.ts";
import { connectNode } from "./node-connection.ts";
import type { RpcConnection } from "./rpc-connection.ts";

const python = process.env["DLRM_PYTHON"];

describe.skipIf(!python)("clients against a server of grpcio (needs DLRM_PYTHON, a Python with grpcio)", () => {
  let server: ChildProcess;
  let port = 0;

  beforeAll(async () => {
    server = spawn(python ?? "", [fileURLToPath(new URL("../test/grpcio-server.py", import.meta.url))], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    if (server.stdout === null) throw new Error("no stdout");
    [port] = (await once(createInterface({ input: server.stdout }), "line")).map(Number) as [number];
  });

  afterAll(async () => {
    server.stdin?.end();
    await once(server, "close");
  });

  /** Calls once for each message, all at once; returns `CODE: detail` or the body of each answer. */
  async function callAll(
    connect: typeof connectH2,
    messages: readonly (Buffer | string)[],
    path: string = "/test.Service/Echo",
  ): Promise<(string | Buffer)[]> {
    const answers: (string | Buffer)[] = [];
    const bodies = new Map<number, Buffer>();
    let left = messages.length;
    const done = Promise.withResolvers<void>();
    const connection: RpcConnection = await connect(
      { host: "127.0.0.1", port, path, collectBodies: true, deadlineMs: 30_000 },
      {
        onBody: (token, body) => bodies.set(token, body),
        onAnswer: (token, status, detail) => {
          answers[token] =
            status === 0 ? (bodies.get(token)?.subarray(5) ?? "") : `${grpcStatusName(status)}: ${detail}`;
          if (--left === 0) done.resolve();
        },
        onClosing: () => {},
        onClosed: () => {},
      },
    );
    for (const [token, message] of messages.entries()) connection.call(token, grpcFrame(Buffer.from(message)));
    await done.promise;
    connection.close();
    return answers;
  }

  describe.each([
    ["h2", connectH2],
    ["node", connectNode],
  ])("%s", (_, connect) => {
    test("hundreds of calls at once get their own bytes back", async () => {
      const messages = Array.from({ length: 400 }, (__, i) => Buffer.from(`message ${i}`));
      expect(await callAll(connect, messages)).toEqual(messages);
    });

    test("messages of some megabytes come through whole", async () => {
      const large = Buffer.alloc(3_000_000, "abcdefghijk");
      const answers = await callAll(connect, [large, large]);
      expect(answers.map((answer) => Buffer.compare(answer as Buffer, large))).toEqual([0, 0]);
    });

    test("statuses and their messages come through, beyond ASCII too", async () => {
      expect(
        await callAll(connect, [
          "abort INVALID_ARGUMENT sparse_3: id −1 (ä 100 %)",
          "fine",
          "abort RESOURCE_EXHAUSTED full",
        ]),
      ).toEqual(["INVALID_ARGUMENT: sparse_3: id −1 (ä 100 %)", Buffer.from("fine"), "RESOURCE_EXHAUSTED: full"]);
    });

    test("a method that is not there is UNIMPLEMENTED", async () => {
      expect(await callAll(connect, ["x"], "/test.Service/None")).toEqual(["UNIMPLEMENTED: Method not found!"]);
    });
  });
});
