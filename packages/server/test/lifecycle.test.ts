import { spawn } from "node:child_process";
import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { openDevice } from "@dlrm/accelerator";
import { Health, PredictionService, PredictRequestSchema, ServingStatus } from "@dlrm/proto";
import { ServerError, startServer } from "@dlrm/server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exampleRequest, inputsOf, scoresOf } from "./example-requests.ts";
import { HeldDevice } from "./held-device.ts";
import { frame, RawHttp2Client } from "./raw-http2.ts";
import {
  baseUrl,
  grpcClient,
  startTestServer,
  type TemporaryBundle,
  temporaryBundle,
  testTransport,
} from "./serving-fixture.ts";

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

const { SERVING, NOT_SERVING, SERVICE_UNKNOWN } = ServingStatus;
const inputs = inputsOf(exampleRequest(1, 1));
const predictMessage = toBinary(PredictRequestSchema, create(PredictRequestSchema, { inputs }));

async function failure(promise: Promise<unknown>): Promise<{ code: string | undefined; message: string }> {
  try {
    await promise;
  } catch (error) {
    const { code, rawMessage } = ConnectError.from(error);
    return { code: Code[code], message: rawMessage };
  }
  throw new Error("expected an error, got an answer");
}

describe("health", () => {
  test("is NOT_SERVING while the model is loaded, SERVING when it is warm, NOT_SERVING from the start of the drain", async () => {
    let finishLoading: () => void = () => {};
    const loading = new Promise<void>((resolve) => {
      finishLoading = resolve;
    });
    let onListening: (port: number) => void = () => {};
    const listening = new Promise<number>((resolve) => {
      onListening = resolve;
    });
    const device = new HeldDevice();
    const starting = startServer({
      bundle: bundle.dir,
      port: 0,
      transport: testTransport(),
      onListening,
      device: async (context) => {
        await loading;
        return await device.open(context);
      },
    });
    const port = await listening;
    const transport = createGrpcTransport({ baseUrl: baseUrl(port) });
    const health = createClient(Health, transport);
    const client = createClient(PredictionService, transport);

    expect((await health.check({})).status).toBe(NOT_SERVING);
    expect(await failure(client.predict({ inputs }))).toEqual({
      code: "Unavailable",
      message: "the server is starting: try another one",
    });
    expect(await failure(client.getModelMetadata({}))).toMatchObject({ code: "Unavailable" });
    const watch = health.watch({ service: PredictionService.typeName })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: NOT_SERVING });

    finishLoading();
    const server = await starting;
    expect((await watch.next()).value).toMatchObject({ status: SERVING });
    for (const service of ["", PredictionService.typeName]) {
      expect((await health.check({ service })).status).toBe(SERVING);
    }
    const { statuses } = await health.list({});
    expect(Object.entries(statuses).map(([service, { status }]) => [service, status])).toEqual([
      ["", SERVING],
      [PredictionService.typeName, SERVING],
    ]);

    const begun = device.hold();
    const inFlight = client.predict({ inputs });
    await begun;
    const drained = server.drain();
    expect((await watch.next()).value).toMatchObject({ status: NOT_SERVING });
    // On this connection and on a new one, as a load balancer would ask.
    const other = createClient(Health, createConnectTransport({ baseUrl: baseUrl(port), httpVersion: "1.1" }));
    for (const asked of [health, other]) expect((await asked.check({})).status).toBe(NOT_SERVING);
    expect(await failure(client.predict({ inputs }))).toEqual({
      code: "Unavailable",
      message: "the server is draining: try another one",
    });

    device.release();
    expect(scoresOf((await inFlight).outputs)).toEqual([exampleRequest(1, 1).dense[0]]);
    expect(await failure(watch.next())).toMatchObject({ code: "Unavailable" });
    expect(await drained).toEqual({ unfinishedRequests: 0 });
    expect(server.phase).toBe("closed");
    expect(await failure(client.predict({ inputs }))).toMatchObject({ code: "Unavailable" });
  });

  test("of a service that does not exist is NOT_FOUND to Check and SERVICE_UNKNOWN to Watch", async () => {
    await using server = await startTestServer(bundle);
    const health = createClient(Health, createGrpcTransport({ baseUrl: baseUrl(server.port) }));
    expect(await failure(health.check({ service: "other" }))).toEqual({
      code: "NotFound",
      message: 'unknown service "other": health is known of "", "dlrm.serving.v1.PredictionService"',
    });
    const watch = health.watch({ service: "other" })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: SERVICE_UNKNOWN });
  });
});

describe("drain", () => {
  test("does not wait for a batching window that nobody can join any more", async () => {
    await using server = await startTestServer(bundle, { batching: "window", batchTimeoutMicros: 60_000_000 });
    await using client = new RawHttp2Client(server.port);
    const answers = [client.call(frame(predictMessage)), client.call(frame(predictMessage))];
    await client.settled();
    const drained = server.drain();
    for (const { grpcStatus } of await Promise.all(answers)) expect(grpcStatus).toBe(0);
    expect(await drained).toEqual({ unfinishedRequests: 0 });
  });

  const untilQueued = async (port: number | undefined, examples: number): Promise<void> => {
    for (;;) {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      if (text.includes(`\ndlrm_queued_examples ${examples}\n`)) return;
    }
  };

  test.each(["gRPC", "gRPC-web", "Connect over HTTP/1.1"])(
    "answers a request that was being sent though the only one that waits goes away, over %s",
    async (protocol) => {
      await using server = await startTestServer(bundle, {
        adminPort: 0,
        batching: "window",
        batchTimeoutMicros: 60_000_000,
      });
      await using client = new RawHttp2Client(server.port);
      const leaving = new AbortController();
      if (protocol === "Connect over HTTP/1.1") {
        const gone = fetch(`${baseUrl(server.port)}/dlrm.serving.v1.PredictionService/Predict`, {
          method: "POST",
          headers: { "content-type": "application/proto" },
          body: Buffer.from(predictMessage),
          signal: leaving.signal,
        });
        gone.catch(() => {});
      } else {
        const gone = client.open({ "content-type": protocol === "gRPC" ? "application/grpc" : "application/grpc-web" });
        gone.on("error", () => {});
        gone.end(frame(predictMessage));
        leaving.signal.addEventListener("abort", () => gone.close(http2.constants.NGHTTP2_CANCEL));
      }
      await untilQueued(server.adminPort, 1);
      const sent = client.open();
      const status = new Promise<unknown>((resolve) => {
        const tell = (fields: http2.IncomingHttpHeaders): void => {
          if (fields["grpc-status"] !== undefined) resolve(fields["grpc-status"]);
        };
        sent.on("response", tell).on("trailers", tell).resume();
      });
      sent.write(frame(predictMessage).subarray(0, 10));
      await client.settled();
      const drained = server.drain();
      leaving.abort();
      await untilQueued(server.adminPort, 0);
      await client.settled();
      sent.end(frame(predictMessage).subarray(10));
      expect(await status).toBe("0");
      expect(await drained).toEqual({ unfinishedRequests: 0 });
    },
  );

  test("cuts off what is left after its timeout", async () => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, { device: device.open, drainTimeoutMs: 20 });
    const begun = device.hold();
    const answer = failure(grpcClient(server.port).predict({ inputs }));
    await begun;
    expect(await server.drain()).toEqual({ unfinishedRequests: 1 });
    expect((await answer).code).toMatch(/^(?:Unavailable|Canceled|Aborted|Unknown|Internal)$/u);
    device.release();
  });

  test("is one, however often it is asked for", async () => {
    const server = await startTestServer(bundle);
    expect(server.drain()).toBe(server.drain());
    await server.drain();
    await server.close();
  });
});

describe("start", () => {
  const code = async (options: Partial<Parameters<typeof startServer>[0]>): Promise<string> => {
    const error: unknown = await startServer({
      bundle: bundle.dir,
      port: 0,
      device: "simulated",
      transport: testTransport(),
      ...options,
    }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ServerError);
    return `${(error as ServerError).code}: ${(error as ServerError).message}`;
  };

  test("says everything that is wrong with the options", async () => {
    expect(await code({ port: 70_000, batching: "sometimes" as "off", maxBatchSize: 0 })).toBe(
      "invalid_options: port must be an integer from 0 to 65535, got 70000; " +
        'batching must be one of off, window, adaptive, got "sometimes"; ' +
        "maxBatchSize must be an integer from 1 to 2147483647, got 0",
    );
    // As JavaScript may: a number in quotes, and a name that is no option's.
    expect(await code({ port: "8500" as unknown as number, prot: 1 } as object)).toMatch(
      /^invalid_options: there is no option prot, expected only bundle, host, port, [\w, ]+, signal; port must be an integer from 0 to 65535, got "8500"$/u,
    );
    expect(await code({ devicePrecision: "int8", simulatedFixedMicros: -1 })).toBe(
      'invalid_options: devicePrecision must be one of float32, got "int8"; ' +
        "simulatedFixedMicros must be a number from 0 to 60000000, got -1",
    );
    expect(await code({ device: "pjrt", devicePrecision: "int8" })).toBe(
      'invalid_options: devicePrecision must be one of float32, bfloat16, got "int8"',
    );
    expect(await code({ maxExamplesPerRequest: 100, maxEnqueuedBytes: 5599 })).toBe(
      "invalid_options: maxEnqueuedBytes (--max-enqueued-bytes) is 5599, less than the 5600 bytes of 100 examples, the largest " +
        "batch or request",
    );
    expect(await code({ maxMessageBytes: 1000, maxBufferedBytes: 68_047 })).toBe(
      "invalid_options: maxBufferedBytes (--max-buffered-bytes) is 68047, less than the 68048 bytes that a compressed message of " +
        "maxMessageBytes (--max-message-bytes), 1000, may need",
    );
    expect(await code({ maxBatchSize: 65, maxEnqueuedExamples: 5 })).toBe(
      "invalid_options: maxBatchSize (--max-batch-size) is 65, over the bundle's largest bucket, 64; " +
        "maxEnqueuedExamples (--max-enqueued-examples) is 5, so that a request of maxExamplesPerRequest " +
        "(--max-examples-per-request), 4096, could never be taken",
    );
  });

  test("fails when there is no bundle, or the port is taken, and leaves nothing open", async () => {
    expect(await code({ bundle: "/nonexistent" })).toContain("startup_failed: /nonexistent is not a bundle");
    const taken = net.createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as net.AddressInfo;
    expect(await code({ port })).toContain(
      `startup_failed: cannot listen on 127.0.0.1, port ${port} (--port): listen EADDRINUSE`,
    );
    expect(await code({ port: 0, adminPort: port })).toContain(
      `startup_failed: cannot listen on 127.0.0.1, port ${port} (--admin-port): listen EADDRINUSE`,
    );
    expect(await code({ port: 0, host: "300.1.1.1" })).toMatch(
      /^startup_failed: cannot listen on 300\.1\.1\.1, port 0 \(--host\): /u,
    );
    taken.close();
    expect(await code({ device: () => Promise.reject(new Error("no such device")) })).toBe(
      "startup_failed: no such device",
    );
  });

  test("can be aborted", async () => {
    expect(await code({ signal: AbortSignal.abort() })).toContain("startup_failed");
  });

  test("a lost device makes the server say NOT_SERVING and why", async () => {
    const device = await openDevice({
      kind: "simulated",
      w: new Float32Array(3),
      v: new Float32Array(32),
      buckets: [1],
    });
    let onFatal: (error: Error) => void = () => {};
    const fatal = new Promise<Error>((resolve) => {
      onFatal = resolve;
    });
    const held = new HeldDevice();
    await using server = await startTestServer(bundle, { device: held.open, onFatal });
    await device.close();
    const lost = await device.execute(1, {}, {}).catch((error: unknown) => error);
    held.failWith(Object.assign(lost as Error, { code: "device_lost" }));
    const client = grpcClient(server.port);
    expect(await failure(client.predict({ inputs }))).toMatchObject({ code: "Unavailable" });
    expect(await fatal).toBeInstanceOf(Error);
    expect(await failure(client.predict({ inputs }))).toEqual({
      code: "Unavailable",
      message: "the server is without its device: try another one",
    });
    expect(server.phase).toBe("draining");
  });
});

describe("dlrm-serve", () => {
  const cli = fileURLToPath(new URL("../src/cli.ts", import.meta.url));

  interface Serving {
    readonly exit: Promise<{ code: number | null; signal: string | null }>;
    readonly lines: string[];
    /** Resolves with the first log line that has this text. */
    logged(text: string): Promise<Record<string, unknown>>;
    kill(signal: NodeJS.Signals): void;
  }

  const serve = (...args: string[]): Serving => run(cli, args);

  function run(file: string, args: readonly string[]): Serving {
    const child = spawn(process.execPath, ["--conditions=@dlrm/source", file, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const lines: string[] = [];
    const waiting = new Map<string, (line: Record<string, unknown>) => void>();
    const seen = new Map<string, Record<string, unknown>>();
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        lines.push(line);
        if (!line.startsWith("{")) return;
        const entry = JSON.parse(line) as Record<string, unknown>;
        seen.set(String(entry["msg"]), entry);
        waiting.get(String(entry["msg"]))?.(entry);
      });
    }
    const exit = (once(child, "close") as Promise<[number | null, string | null]>).then(([code, signal]) => ({
      code,
      signal,
    }));
    return {
      exit,
      lines,
      logged: async (text) => {
        const found = seen.get(text);
        if (found !== undefined) return found;
        const later = new Promise<Record<string, unknown>>((resolve) => waiting.set(text, resolve));
        const ended = exit.then(() => {
          throw new Error(`ended before it logged ${JSON.stringify(text)}:\n${lines.join("\n")}`);
        });
        return await Promise.race([later, ended]);
      },
      kill: (signal) => void child.kill(signal),
    };
  }

  const simulated = (): string[] => [
    "--bundle",
    bundle.dir,
    "--port",
    "0",
    "--device",
    "simulated",
    "--transport",
    testTransport(),
    // What these tests see of the process is the same for several.
    "--frontends",
    "1",
  ];

  /** A request whose body never ends: it is in, and cannot be answered. */
  async function openRequest(port: number): Promise<net.Socket> {
    const socket = net.connect(port, "127.0.0.1");
    socket.on("error", () => {});
    const path = "/dlrm.serving.v1.PredictionService/Predict";
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n{`,
    );
    // The server says "100 Continue" when the request has come to it.
    await once(socket, "data");
    return socket;
  }

  test.each(["SIGTERM", "SIGINT"] as const)("%s answers what is in and ends with code 0", async (signal) => {
    const serving = serve(
      ...simulated(),
      "--batching",
      "window",
      "--batch-timeout-micros",
      "60000000",
      "--max-batch-size",
      "4",
    );
    const { port } = await serving.logged("listening; the model is being loaded");
    expect(await serving.logged("serving")).toMatchObject({
      model: "tiny",
      version: "3",
      batching: "window",
      maxBatchSize: 4,
    });
    await using client = new RawHttp2Client(Number(port));
    const answers = [client.call(frame(predictMessage)), client.call(frame(predictMessage))];
    await client.settled();
    serving.kill(signal);
    for (const { grpcStatus } of await Promise.all(answers)) expect(grpcStatus).toBe(0);
    expect(await serving.exit).toEqual({ code: 0, signal: null });
    expect(await serving.logged("drained")).toMatchObject({
      unfinishedRequests: 0,
      answeredRequests: 2,
      answeredExamples: 2,
    });
  });

  test("a drain that runs out of time ends with code 1, and says so", async () => {
    const serving = serve(...simulated(), "--drain-timeout-ms", "20");
    const { port } = await serving.logged("listening; the model is being loaded");
    await serving.logged("serving");
    const socket = await openRequest(Number(port));
    serving.kill("SIGTERM");
    expect(await serving.exit).toEqual({ code: 1, signal: null });
    expect(await serving.logged("drained")).toMatchObject({ unfinishedRequests: 1 });
    socket.destroy();
  });

  test.each(["onnxruntime", "simulated"])(
    "SIGTERM while it starts, with the device %s, ends it with code 0",
    async (device) => {
      const serving = serve("--bundle", bundle.dir, "--port", "0", "--device", device);
      await serving.logged("listening; the model is being loaded");
      serving.kill("SIGTERM");
      expect(await serving.exit).toEqual({ code: 0, signal: null });
    },
  );

  test("a second signal ends it at once", async () => {
    const serving = serve(...simulated(), "--drain-timeout-ms", "600000");
    const { port } = await serving.logged("listening; the model is being loaded");
    await serving.logged("serving");
    const socket = await openRequest(Number(port));
    serving.kill("SIGTERM");
    expect(await serving.logged("draining")).toMatchObject({ inFlightRequests: 1 });
    serving.kill("SIGTERM");
    expect(await serving.exit).toEqual({ code: null, signal: "SIGTERM" });
    socket.destroy();
  });

  test("logs a rejection that nobody awaits and serves on; drains after an uncaught error, and ends with code 1", async () => {
    const serving = run(fileURLToPath(new URL("serve-child.ts", import.meta.url)), simulated());
    const { port } = await serving.logged("listening; the model is being loaded");
    await serving.logged("serving");
    serving.kill("SIGHUP");
    expect(await serving.logged("unhandled rejection")).toMatchObject({
      level: 50,
      err: { message: "rejected where nobody waits" },
    });
    expect(scoresOf((await grpcClient(Number(port)).predict({ inputs })).outputs)).toHaveLength(1);
    serving.kill("SIGUSR2");
    expect(await serving.logged("uncaught error: draining")).toMatchObject({
      level: 60,
      err: { message: "thrown where nobody catches" },
    });
    expect(await serving.exit).toEqual({ code: 1, signal: null });
    expect(await serving.logged("drained")).toMatchObject({ unfinishedRequests: 0, answeredRequests: 1 });
  });

  test("--version says the package's version, Node's, the kernel and the devices", async () => {
    const serving = serve("--version");
    expect(await serving.exit).toEqual({ code: 0, signal: null });
    expect(serving.lines[0]).toMatch(/^dlrm-serve \d+\.\d+\.\d+$/u);
    expect(serving.lines[1]).toBe(`node ${process.version}`);
    expect(serving.lines[2]).toMatch(/^gather kernel: (?:native|[\w ]+ \(not native: .+\))/u);
    expect(serving.lines[3]).toMatch(/^device onnxruntime: available, onnxruntime \d/u);
    expect(serving.lines[4]).toBe("device simulated: available");
    expect(serving.lines[5]).toMatch(/^device pjrt: (?:available|not available: .+)$/u);
  });

  test.each([
    [["--bundle", "x", "--prot", "1"], "error: unknown option '--prot'\n(Did you mean --port?)"],
    [[], "error: required option '--bundle <dir>' not specified"],
    [
      ["--bundle", "x", "--device", "gpu"],
      "Allowed choices are onnxruntime, simulated, pjrt, pjrt:/path/of/plugin.so.",
    ],
    ...["many", "-1", "0x10", "1e3", " 5 ", "1.5", "+5", ""].map((port): [string[], string] => [
      ["--bundle", "x", `--port=${port}`],
      `error: option '--port <number>' argument '${port}' is invalid. Expected a whole number, such as 16.`,
    ]),
    ...["-1", "0x10", "1e3", " 5", ".5", "5.", "Infinity"].map((micros): [string[], string] => [
      ["--bundle", "x", `--simulated-fixed-micros=${micros}`],
      `error: option '--simulated-fixed-micros <µs>' argument '${micros}' is invalid. Expected a number, such as 350 or 0.5.`,
    ]),
    [["--bundle", "x", "--port", "65536"], "error: port must be an integer from 0 to 65535, got 65536"],
    [["--bundle", "x", "--port", "80", "--admin-port", "80"], "error: port and adminPort must differ, got 80 for both"],
    [
      ["--bundle", "x", "--simulated-fixed-micros", "20"],
      'error: simulatedFixedMicros is for device "simulated" alone, and device is "onnxruntime"',
    ],
  ])("wrong usage %j ends with code 2 and says what is wrong", async (args, message) => {
    const serving = serve(...args);
    expect(await serving.exit).toEqual({ code: 2, signal: null });
    expect(serving.lines.join("\n")).toContain(message);
  });

  test("the device is told what to compute in, and what to take for it", async () => {
    const serving = serve(
      ...simulated(),
      ...["--simulated-fixed-micros", "20.5", "--simulated-micros-per-example", "0", "--device-precision", "float32"],
    );
    expect(await serving.logged("serving")).toMatchObject({
      device: "simulated accelerator (20.5 µs + 0 µs an example)",
      precision: "float32",
    });
    serving.kill("SIGTERM");
    expect(await serving.exit).toEqual({ code: 0, signal: null });
    const quantized = serve("--bundle", bundle.dir, "--port", "0", "--device-precision", "int8");
    expect(await quantized.logged("serving")).toMatchObject({
      precision: "int8",
      precisionError: { maxAbs: expect.any(Number) as number },
    });
    quantized.kill("SIGTERM");
    expect(await quantized.exit).toEqual({ code: 0, signal: null });
  });

  test("a bundle that is none ends with code 1 before anything listens, and is said once", async () => {
    const serving = serve("--bundle", "/nonexistent", "--port", "0");
    expect(await serving.exit).toEqual({ code: 1, signal: null });
    expect(serving.lines).toEqual([expect.stringMatching(/^error: \/nonexistent is not a bundle/u)]);
  });
});
