import { existsSync, readFileSync } from "node:fs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type FakeRequest, type FakeServer, startFakeServer } from "../test/fake-server.ts";
import { runHere } from "../test/run-here.ts";
import { allowedCpus, findTaskset } from "./cpu-affinity.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import type { LoadOptions } from "./load-options.ts";
import type { LoadProgress } from "./load-progress.ts";
import { runLoad } from "./run-load.ts";

// These tests start several processes each; a machine that is busy takes its time for that.
vi.setConfig({ testTimeout: 180_000 });

let servers: FakeServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function serve(onRequest: (request: FakeRequest) => void): Promise<FakeServer> {
  const server = await startFakeServer(onRequest);
  servers.push(server);
  return server;
}

const options = (server: FakeServer, change: Partial<LoadOptions> = {}): LoadOptions => ({
  host: "127.0.0.1",
  port: server.port,
  shape: { denseFeatures: 4, features: [{ name: "sparse_0", vocabularySize: 100, hotSize: 2 }] },
  requestSize: 2,
  mode: { kind: "closed", concurrency: 4 },
  connections: 3,
  // Starting a process takes longer than all else here; where several matter, a test says so.
  processes: 1,
  warmupS: 0.1,
  // Long enough for some requests on a machine that is busy with other things, too.
  durationS: 0.6,
  poolExamples: 200,
  drainS: 5,
  ...change,
});

const answerAtOnce = ({ connection, streamId }: FakeRequest): void => connection.answer(streamId);

describe("runLoad", () => {
  test.each(["h2", "node"] as const)("closed loop over %s: every figure agrees with the others", async (transport) => {
    let served = 0;
    const server = await serve((request) => {
      served++;
      answerAtOnce(request);
    });
    const before = process.hrtime.bigint();
    const processes = transport === "h2" ? 2 : 1;
    const result = await (processes === 2 ? runLoad : runHere)(options(server, { transport, processes }));
    const after = process.hrtime.bigint();
    expect(result.errors).toEqual({});
    expect(result.requests).toBeGreaterThan(0);
    expect(served).toBeGreaterThanOrEqual(result.requests);
    expect(result.examples).toBe(result.requests * 2);
    expect(result.elapsedS).toBe(0.6);
    expect(result.requestsPerS).toBeCloseTo(result.requests / 0.6, 6);
    expect(result.examplesPerS).toBeCloseTo(result.examples / 0.6, 6);
    expect(result.latency.count).toBe(result.intended);
    // At each end of the window at most each caller's one request counts for one and not for the other.
    expect(Math.abs(result.latency.count - result.requests)).toBeLessThanOrEqual(4);
    const merged = LatencyHistogram.decode(result.latency.histogram);
    expect(merged.count).toBe(result.latency.count);
    expect(merged.percentileMicros(99) / 1000).toBe(result.latency.p99Ms);
    expect(result.latency.p50Ms).toBeLessThanOrEqual(result.latency.p99Ms);
    expect(result.latency.p99Ms).toBeLessThanOrEqual(result.latency.maxMs);
    expect(result.latencyFromSend).toEqual(result.latency);
    expect([result.processes, result.connections, server.connections.length]).toEqual([processes, 3, 3]);
    expect([result.dropped, result.late, result.unanswered, result.reconnects]).toEqual([0, 0, 0, 0]);
    expect(result.clientCpuMicros).toBeGreaterThan(0);
    expect(result.poolRequests).toBe(processes === 2 ? 128 : 100);
    expect(result.poolBytes).toBeGreaterThan(100 * 2 * 6 * 4);
    expect(result.measuredToNs - result.measuredFromNs).toBeCloseTo(0.6e9, -3);
    expect(result.measuredFromNs).toBeGreaterThan(Number(before));
    expect(result.measuredToNs).toBeLessThan(Number(after));
    expect(result.settings).toMatchObject({ seed: 1, transport, durationS: 0.6 });
  });

  test("never has more requests outstanding than callers", async () => {
    const held: FakeRequest[] = [];
    let most = 0;
    const server = await serve((request) => {
      held.push(request);
      most = Math.max(most, held.length);
      // Answered in a later turn, the oldest first.
      setImmediate(() => {
        const next = held.shift();
        next?.connection.answer(next.streamId);
        next?.connection.flush();
      });
    });
    await runHere(options(server));
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(4);
  });

  test("open loop: all sends of the schedule are made, whatever the server does, and each is counted once", async () => {
    const server = await serve(answerAtOnce);
    const run = options(server, { mode: { kind: "open", offeredRps: 400 }, durationS: 0.5 });
    const [result, again] = [await runHere(run), await runHere(run)];
    expect(result.intended).toBe(again.intended);
    expect(result.intended).toBe(result.latency.count);
    expect(result.errors).toEqual({});
    expect(result.latencyFromSend.count).toBe(result.latency.count);
    expect(result.latencyFromSend.p50Ms).toBeLessThanOrEqual(result.latency.p50Ms);
    expect(result.sendLag.maxMs).toBeGreaterThan(0);
  });

  test("open loop: a server that answers nothing gets the capped number of requests, the rest is dropped", async () => {
    let served = 0;
    const server = await serve(() => void served++);
    const result = await runHere(
      options(server, { mode: { kind: "open", offeredRps: 500 }, warmupS: 0, maxInFlight: 10, drainS: 0 }),
    );
    // What was sent last may not have been read by the server.
    expect(served).toBeLessThanOrEqual(10);
    expect(result.dropped).toBe(result.intended - 10);
    expect(result).toMatchObject({ requests: 0, unanswered: 10, errors: { DEADLINE_EXCEEDED: 10 } });
    expect(result.verdict.valid).toBe(false);
  });

  test("failures are counted by code, with the first message, and do not end the run", async () => {
    let served = 0;
    const server = await serve(({ connection, streamId }) => {
      if (served++ % 2 === 0) connection.answer(streamId);
      else connection.answer(streamId, 8, "queue is full");
    });
    const result = await runHere(options(server));
    expect(Object.keys(result.errors)).toEqual(["RESOURCE_EXHAUSTED"]);
    expect(result.errorSample).toBe("RESOURCE_EXHAUSTED: queue is full");
    expect(result.intended).toBe(result.latency.count + (result.errors["RESOURCE_EXHAUSTED"] ?? 0));
    expect(result.requests).toBeGreaterThan(0);
  });

  test("connections that are lost are made again, and what was outstanding is UNAVAILABLE", async () => {
    let served = 0;
    const server = await serve(({ connection, streamId }) => {
      served++;
      if (served === 2) connection.socket.destroy();
      else connection.answer(streamId);
    });
    const result = await runHere(options(server, { warmupS: 0 }));
    expect(result.reconnects).toBe(1);
    expect(result.errors["UNAVAILABLE"]).toBeGreaterThanOrEqual(1);
    expect(result.errors["UNAVAILABLE"]).toBeLessThanOrEqual(4);
    expect(result.requests).toBeGreaterThan(0);
  });

  test("progress comes while load runs, on the CPUs that were given where there is taskset", async () => {
    const server = await serve(answerAtOnce);
    const seen: LoadProgress[] = [];
    const cpu = String((allowedCpus() ?? [0])[0]);
    const pinned = findTaskset() !== undefined;
    const run = { warmupS: 0, durationS: 1.3, onProgress: (progress: LoadProgress) => seen.push(progress) };
    const result = await runLoad(options(server, { ...run, ...(pinned ? { cpus: cpu } : {}) }));
    expect(seen.length).toBeGreaterThanOrEqual(1);
    expect(seen[0]).toMatchObject({ phase: "measuring", errors: 0 });
    const answered = seen.filter((progress) => progress.requestsPerS > 0);
    expect(answered.length).toBeGreaterThan(0);
    expect(answered.every((progress) => (progress.p99Ms ?? 0) >= (progress.p50Ms ?? Infinity))).toBe(true);
    expect([result.pinned, result.notPinnedReason]).toEqual([pinned, undefined]);
    if (pinned) expect(result.cpus).toBe(cpu);
  });

  test.skipIf(findTaskset() === undefined)("CPUs that do not exist are said (needs taskset)", async () => {
    const server = await serve(answerAtOnce);
    await expect(runLoad(options(server, { cpus: "4095" }))).rejects.toMatchObject({
      code: "pinning_failed",
      message: expect.stringMatching(
        /^the load processes cannot be held to CPUs 4095, are they there\? \(taskset: .+\)$/,
      ),
    });
  });

  test("a server that is not there fails the run before it begins", async () => {
    const server = await serve(answerAtOnce);
    await server.close();
    await expect(runLoad(options(server))).rejects.toMatchObject({
      code: "connect_failed",
      message: expect.stringContaining(`127.0.0.1:${server.port}`),
    });
  });

  test("an abort ends the run and leaves no process behind", async () => {
    const abort = new AbortController();
    const server = await serve((request) => {
      answerAtOnce(request);
      abort.abort();
    });
    await expect(runLoad(options(server, { durationS: 600, signal: abort.signal }))).rejects.toMatchObject({
      code: "aborted",
    });
    expect(loadProcesses()).toEqual([]);
    await expect(runLoad(options(server, { signal: abort.signal }))).rejects.toMatchObject({ code: "aborted" });
  });

  test("a load process that dies is told of with how it ended", async () => {
    let killed = false;
    const server = await serve((request) => {
      answerAtOnce(request);
      const [pid] = loadProcesses();
      if (!killed && pid !== undefined) process.kill(pid, "SIGKILL");
      killed = true;
    });
    if (!existsSync("/proc/self/task")) return;
    await expect(runLoad(options(server, { durationS: 600 }))).rejects.toMatchObject({
      code: "process_failed",
      message: "a load process ended by SIGKILL",
    });
    expect(loadProcesses()).toEqual([]);
  });
});

/** Load processes of this process, as Linux tells of them. */
function loadProcesses(): number[] {
  const children = `/proc/${process.pid}/task/${process.pid}/children`;
  if (!existsSync(children)) return [];
  return readFileSync(children, "utf8")
    .split(" ")
    .filter((pid) => pid !== "" && isLoadProcess(pid))
    .map(Number);
}

function isLoadProcess(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("load-process");
  } catch {
    return false;
  }
}
