import type { Worker } from "node:worker_threads";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { pino } from "pino";
import type { NamedTensors } from "@dlrm/accelerator";
import { Health, PredictionService, ServingStatus } from "@dlrm/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exampleRequest, inputsOf } from "./example-requests.ts";
import { HeldDevice } from "./held-device.ts";
import {
  baseUrl,
  grpcClient,
  startTestServer,
  type TemporaryBundle,
  temporaryBundle,
  TRANSPORTS,
} from "./serving-fixture.ts";

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

/** Threads that are started while the returned function has not been called, by name. */
function watchThreads(): { readonly named: (name: string) => Worker[] } & Disposable {
  const workers: [name: string, worker: Worker][] = [];
  const onWorker = (worker: Worker): void => void workers.push([worker.threadName ?? "", worker]);
  process.on("worker", onWorker);
  return {
    named: (name) => workers.filter(([each]) => each === name).map(([, worker]) => worker),
    [Symbol.dispose]: () => void process.off("worker", onWorker),
  };
}

/** Resolves once `/metrics` has this line. */
async function untilMetric(port: number | undefined, line: string): Promise<void> {
  for (;;) {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    if (text.split("\n").includes(line)) return;
  }
}

async function metric(port: number | undefined, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length),
  );
}

async function healthOf(port: number): Promise<ServingStatus> {
  const client = createClient(Health, createGrpcTransport({ baseUrl: baseUrl(port) }));
  return (await client.check({})).status;
}

/** Resolves when the server's health, asked over new connections, is this. */
async function untilHealth(port: number, wanted: ServingStatus): Promise<void> {
  while ((await healthOf(port)) !== wanted);
}

describe("two frontends", () => {
  test("score as one does, over every protocol, also what is larger than a batch, and are counted together", async () => {
    await using one = await startTestServer(bundle, { frontends: 1 });
    await using server = await startTestServer(bundle, { frontends: 2, adminPort: 0, maxBatchSize: 8 });
    expect(server.frontends).toBe(2);
    let examples = 0;
    for (const [index, makeTransport] of Object.values(TRANSPORTS).entries()) {
      const inputs = inputsOf(exampleRequest(index, index + 1));
      const expected = await grpcClient(one.port).predict({ inputs });
      // A connection each: both frontends get some.
      for (let connection = 0; connection < 4; connection++) {
        const answer = await createClient(PredictionService, makeTransport(server.port)).predict({ inputs });
        expect(answer).toEqual(expected);
        examples += index + 1;
      }
    }
    const large = inputsOf(exampleRequest(5, 30));
    expect(await grpcClient(server.port).predict({ inputs: large })).toEqual(
      await grpcClient(one.port).predict({ inputs: large }),
    );
    examples += 30;
    expect(server.stats).toEqual({ answeredRequests: 33, answeredExamples: examples, refusedRequests: {} });
    const text = await (await fetch(`http://127.0.0.1:${server.adminPort}/metrics`)).text();
    expect(text).toContain(`dlrm_batched_examples_total ${examples}\n`);
    expect(text).toContain(`dlrm_stage_seconds_count{stage="gather"} 36\n`);
    const delays = text.matchAll(/^dlrm_event_loop_delay_seconds\{thread="(.+)",quantile="1"\} (.+)$/gmu);
    const threads = [...delays].map(([, thread, seconds]) => [thread, Number(seconds) > 0]);
    expect(threads).toEqual([
      ["main", true],
      ["frontend 0", true],
      ["frontend 1", true],
    ]);
  });

  test("take batches whose limit lies between two sizes of the device, padded to the larger", async () => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, {
      frontends: 2,
      adminPort: 0,
      device: device.open,
      maxBatchSize: 6,
      maxExamplesPerRequest: 12,
    });
    using _held = device;
    expect(server.limits.maxBatchSize).toBe(6);
    for (const examples of [6, 12]) {
      const request = exampleRequest(examples, examples);
      const { outputs } = await grpcClient(server.port).predict({ inputs: inputsOf(request) });
      const scores = new Float32Array(outputs["scores"]!.data.slice().buffer);
      expect([...scores]).toEqual(Array.from({ length: examples }, (_, i) => request.dense[3 * i]));
    }
    // One batch of the first request, two of the second.
    expect(device.begun).toEqual([8, 8, 8]);
    expect(await metric(server.adminPort, "dlrm_batched_examples_total")).toBe(18);
    expect(await metric(server.adminPort, "dlrm_padding_examples_total")).toBe(6);
  });

  test("with batching off run each request alone, whatever waits", async () => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, {
      frontends: 2,
      adminPort: 0,
      device: device.open,
      batching: "off",
      maxBatchSize: 16,
    });
    using _held = device;
    const begun = device.hold();
    // More than the ring has room for, over so many connections that both frontends have some.
    const requests = Array.from({ length: 48 }, (_, index) => exampleRequest(index, 1 + (index % 3)));
    const answers = requests.map((request) => grpcClient(server.port).predict({ inputs: inputsOf(request) }));
    await begun;
    const examples = requests.reduce((sum, { batch }) => sum + batch, 0);
    const [first] = device.begun as [number];
    await untilMetric(server.adminPort, `dlrm_queued_examples ${examples - (first === 4 ? 3 : first)}`);
    device.release();
    for (const [index, answer] of answers.entries()) {
      const { batch, dense } = requests[index]!;
      const scores = new Float32Array((await answer).outputs["scores"]!.data.slice().buffer);
      expect([...scores]).toEqual(Array.from({ length: batch }, (_, i) => dense[3 * i]));
    }
    expect(device.begun.toSorted((one, other) => one - other)).toEqual(
      [1, 2, 4].flatMap((bucket) => Array<number>(16).fill(bucket)),
    );
    expect(await metric(server.adminPort, 'dlrm_batches_total{reason="full"}')).toBe(requests.length);
    expect(await metric(server.adminPort, "dlrm_batched_examples_total")).toBe(examples);
  });

  test("have as many batches run at a time as the device works on, and answer each when it ends", async () => {
    const device = new HeldDevice();
    const begun: (() => void)[] = [];
    let onBegin = (): void => {};
    const beginnings = async (count: number): Promise<void> => {
      while (begun.length < count) await new Promise<void>((resolve) => (onBegin = resolve));
    };
    await using server = await startTestServer(bundle, {
      frontends: 2,
      adminPort: 0,
      maxBatchSize: 4,
      device: async (context) =>
        new Proxy(await device.open(context), {
          get: (target, name) => {
            if (name === "maxInFlight") return 2;
            if (name !== "execute") {
              const value: unknown = Reflect.get(target, name, target);
              return typeof value === "function" ? (value.bind(target) as unknown) : value;
            }
            return async (bucket: number, { dense }: NamedTensors, { scores }: NamedTensors) => {
              await new Promise<void>((resolve) => {
                begun.push(resolve);
                onBegin();
              });
              for (let row = 0; row < bucket; row++) scores![row] = dense![3 * row]!;
            };
          },
        }),
    });
    const requests = [1, 2, 3].map((seed) => exampleRequest(seed, 4));
    const answers: Promise<number[]>[] = [];
    const send = (index: number): void => {
      const inputs = inputsOf(requests[index]!);
      answers.push(
        grpcClient(server.port)
          .predict({ inputs })
          .then(({ outputs }) => [...new Float32Array(outputs["scores"]!.data.slice().buffer)]),
      );
    };
    const expected = (index: number): number[] => [0, 1, 2, 3].map((row) => requests[index]!.dense[3 * row]!);
    send(0);
    await beginnings(1);
    send(1);
    await beginnings(2);
    send(2);
    await untilMetric(server.adminPort, "dlrm_queued_examples 4");
    expect(await metric(server.adminPort, "dlrm_in_flight_batches")).toBe(2);
    begun[1]!();
    expect(await answers[1]).toEqual(expected(1));
    await beginnings(3);
    begun[2]!();
    expect(await answers[2]).toEqual(expected(2));
    expect(await metric(server.adminPort, "dlrm_in_flight_batches")).toBe(1);
    begun[0]!();
    expect(await answers[0]).toEqual(expected(0));
  });

  test("an id that is no row, and more than may wait, are refused as by one frontend", async () => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, {
      frontends: 2,
      adminPort: 0,
      device: device.open,
      maxBatchSize: 4,
      maxExamplesPerRequest: 4,
      maxEnqueuedExamples: 6,
    });
    using _held = device;
    const wrong = exampleRequest(3, 1);
    wrong.ids[1]![0] = 7;
    await expect(grpcClient(server.port).predict({ inputs: inputsOf(wrong) })).rejects.toThrow(
      '[invalid_argument] input "sparse_1": expected ids from 0 to 6, got 7 at example 0, bag position 0',
    );
    const begun = device.hold();
    const running = grpcClient(server.port).predict({ inputs: inputsOf(exampleRequest(1, 4)) });
    await begun;
    const queued = untilMetric(server.adminPort, "dlrm_queued_examples 4");
    const waiting = grpcClient(server.port).predict({ inputs: inputsOf(exampleRequest(1, 4)) });
    await queued;
    const refused = grpcClient(server.port).predict({ inputs: inputsOf(exampleRequest(1, 4)) });
    await expect(refused).rejects.toThrow(
      "[resource_exhausted] the server is overloaded: 4 of at most 6 examples wait (--max-enqueued-examples)",
    );
    device.release();
    expect((await running).outputs["scores"]?.shape).toEqual([4n]);
    expect((await waiting).outputs["scores"]?.shape).toEqual([4n]);
  });

  test("a cancelled request and one whose deadline passes are not run when all of their batch have left, and are counted", async () => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, { frontends: 2, adminPort: 0, device: device.open });
    using _held = device;
    const client = grpcClient(server.port);
    const inputs = inputsOf(exampleRequest(1, 1));
    const begun = device.hold();
    const running = client.predict({ inputs });
    await begun;
    const cancelling = new AbortController();
    const cancelled = client.predict({ inputs }, { signal: cancelling.signal });
    const expired = client.predict({ inputs }, { headers: { "grpc-timeout": "100m" } });
    await untilMetric(server.adminPort, "dlrm_queued_examples 2");
    cancelling.abort();
    await expect(cancelled).rejects.toThrow("[canceled]");
    await expect(expired).rejects.toThrow("[deadline_exceeded]");
    await untilMetric(server.adminPort, 'dlrm_dropped_requests_total{why="cancelled",when="waiting"} 1');
    await untilMetric(server.adminPort, 'dlrm_dropped_requests_total{why="deadline",when="waiting"} 1');
    device.release();
    await running;
    await untilMetric(server.adminPort, "dlrm_queued_examples 0");
    // The warm-up is no batch of the ring: the device ran one request and nothing more.
    expect(device.begun).toEqual([1]);
  });

  test("drain answers everything that came, on both", async () => {
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, {
      frontends: 2,
      adminPort: 0,
      device: device.open,
      batching: "window",
      batchTimeoutMicros: 60_000_000,
    });
    using _held = device;
    const clients = Array.from({ length: 6 }, () => grpcClient(server.port));
    const answers = clients.map((client, index) => client.predict({ inputs: inputsOf(exampleRequest(index, 1)) }));
    // The window is a minute: only the drain ends it.
    await untilMetric(server.adminPort, "dlrm_queued_examples 6");
    const drained = server.drain();
    for (const answer of answers) expect((await answer).outputs["scores"]?.shape).toEqual([1n]);
    expect(await drained).toEqual({ unfinishedRequests: 0 });
    expect(server.stats).toEqual({ answeredRequests: 6, answeredExamples: 6, refusedRequests: {} });
    expect(server.phase).toBe("closed");
  });

  test("are one where threads cannot share a port, and the log says so", async () => {
    const warnings: unknown[] = [];
    const logger = pino(
      { level: "warn", base: null },
      { write: (line: string) => void warnings.push(JSON.parse(line)) },
    );
    await using server = await startTestServer(bundle, { frontends: 2, reusePort: false, logger });
    expect(server.frontends).toBe(1);
    expect(warnings).toMatchObject([
      {
        reason: "frontends may not share a port",
        msg: "threads cannot share a port here: one frontend instead of several",
      },
    ]);
    const { outputs } = await grpcClient(server.port).predict({ inputs: inputsOf(exampleRequest(1, 1)) });
    expect(outputs["scores"]?.shape).toEqual([1n]);
  });

  test("one that crashes is replaced, and the requests of the other are answered", async () => {
    using threads = watchThreads();
    const device = new HeldDevice();
    await using server = await startTestServer(bundle, { frontends: 2, adminPort: 0, device: device.open });
    using _held = device;
    const begun = device.hold();
    // Over so many connections that both frontends have some.
    const answers = Array.from({ length: 24 }, (_, index) =>
      grpcClient(server.port)
        .predict({ inputs: inputsOf(exampleRequest(index, 1)) })
        .then(
          () => "answered",
          () => "lost",
        ),
    );
    await begun;
    await untilMetric(server.adminPort, "dlrm_in_flight_requests 24");
    const [crashing] = threads.named("frontend 0") as [Worker];
    await crashing.terminate();
    const lost = 24 - (await metric(server.adminPort, "dlrm_in_flight_requests"));
    device.release();
    const outcomes = await Promise.all(answers);
    expect(outcomes.filter((outcome) => outcome === "lost")).toHaveLength(lost);
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThan(24);
    while (threads.named("frontend 0").length < 2) await new Promise(setImmediate);
    const inputs = inputsOf(exampleRequest(1, 1));
    for (let connection = 0; connection < 8; connection++) {
      expect((await grpcClient(server.port).predict({ inputs })).outputs["scores"]?.shape).toEqual([1n]);
    }
    expect(server.phase).toBe("serving");
  });
});

describe.each([1, 2])("a device whose thread crashes, with %i frontends", (frontends) => {
  test("fails what it had, says NOT_SERVING, and is opened again", async () => {
    using threads = watchThreads();
    await using server = await startTestServer(bundle, { frontends, adminPort: 0 });
    const client = grpcClient(server.port);
    const inputs = inputsOf(exampleRequest(1, 1));
    const before = await client.predict({ inputs });
    const [crashing] = threads.named("simulated device") as [Worker];
    const ended = crashing.terminate();
    const failed = client.predict({ inputs });
    await ended;
    await expect(failed).rejects.toThrow(
      /^\[unavailable\] (the device is lost: |the server is opening its device again)/u,
    );
    await untilHealth(server.port, ServingStatus.NOT_SERVING);
    await expect(client.predict({ inputs })).rejects.toThrow(
      "[unavailable] the server is opening its device again: try another one",
    );
    expect(server.phase).toBe("recovering");
    await untilHealth(server.port, ServingStatus.SERVING);
    expect(await client.predict({ inputs })).toEqual(before);
    expect(threads.named("simulated device")).toHaveLength(2);
    expect(await metric(server.adminPort, "dlrm_device_losses_total")).toBe(1);
    expect(await metric(server.adminPort, "dlrm_device_reopenings_total")).toBe(1);
  });
});
