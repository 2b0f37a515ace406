import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import { type FakeServer, startFakeServer } from "../test/fake-server.ts";
import { parseArgs } from "./arguments.ts";
import type { LoadResult } from "./load-result.ts";

// These tests start several processes each; a machine that is busy takes its time for that.
vi.setConfig({ testTimeout: 180_000 });

const cli = fileURLToPath(new URL("cli.ts", import.meta.url));
const shapeFile = fileURLToPath(new URL("../test/shape.json", import.meta.url));

function start(...args: string[]) {
  const child = spawn(process.execPath, ["--conditions=@dlrm/source", cli, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, ...output }));
  return { child, ended };
}

/** Settles once every connection is gone, which is when the load processes are. */
async function closedAll(server: FakeServer): Promise<number> {
  await Promise.all(
    server.connections.map(({ socket }) => new Promise<void>((resolve) => socket.on("close", () => resolve()))),
  );
  return server.connections.length;
}

describe("dlrm-loadgen", () => {
  test("wrong usage is exit code 2, with the nearest flag", async () => {
    const { code, stderr } = await start("127.0.0.1:1", "--concurency", "3").ended;
    expect(code).toBe(2);
    expect(stderr).toContain("unknown option '--concurency'");
    expect(stderr).toContain("--concurrency");
  });

  test("--version says the package's", async () => {
    const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    expect(await start("--version").ended).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: "" });
  });

  test("values out of range are wrong usage, all said by their flags before anything is asked of the server", async () => {
    const flags = "-b 0 --rate 0 -d 0 -w -1 --connections 1.5 --processes 0 --seed -1 --id-distribution zipf:0";
    const more = "--cpus x --pool-examples 0 --max-in-flight 0 --deadline 0 --drain -1";
    const { code, stderr, stdout } = await start("127.0.0.1:99999", ...`${flags} ${more}`.split(" ")).ended;
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr.trim().split(/\n\s*/)).toEqual([
      "error: the port of <host:port> must be an integer from 1 to 65535, got 99999",
      "--request-size must be an integer from 1 to 65536, got 0",
      "--connections must be an integer from 1 to 65536, got 1.5",
      "--processes must be an integer from 1 to 1024, got 0",
      "--warmup must be a number from 0 to 86400, got -1",
      "--duration must be a number from 0.001 to 86400, got 0",
      "--seed must be an integer from 0 to 9007199254740991, got -1",
      "--pool-examples must be an integer from 1 to 4194304, got 0",
      "--max-in-flight must be an integer from 1 to 10000000, got 0",
      "--deadline must be an integer from 1 to 86400000, got 0",
      "--drain must be a number from 0 to 3600, got -1",
      "--rate must be a number from 0.001 to 10000000, got 0",
      "the exponent of --id-distribution must be a number from 0.01 to 10, got 0",
      '--cpus must be a list such as "0-3,8", got "x"',
    ]);
    expect((await start("127.0.0.1:1", "-c", "0").ended).stderr).toBe(
      "error: --concurrency must be an integer from 1 to 1000000, got 0\n",
    );
  });

  test("a server that is not there is exit code 1, said in one line", async () => {
    const { code, stderr, stdout } = await start("127.0.0.1:1").ended;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("dlrm-loadgen: cannot connect to 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1");
  });

  test("Ctrl-C ends the run with exit code 130 and no process behind", async () => {
    const loaded = Promise.withResolvers<void>();
    const server = await startFakeServer(({ connection, streamId }) => {
      connection.answer(streamId);
      loaded.resolve();
    });
    const { child, ended } = start(`127.0.0.1:${server.port}`, "--shape", shapeFile, "-d", "600", "-c", "2");
    await loaded.promise;
    const gone = closedAll(server);
    child.kill("SIGINT");
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    expect(stderr).toContain("dlrm-loadgen: interrupted");
    expect(await gone).toBeGreaterThan(0);
    await server.close();
  });

  test("Ctrl-C also ends the wait for a server that says nothing", async () => {
    const connected = Promise.withResolvers<void>();
    const server = await startFakeServer(() => {}, { silent: true });
    server.server.on("connection", () => connected.resolve());
    const { child, ended } = start(`127.0.0.1:${server.port}`);
    await connected.promise;
    child.kill("SIGINT");
    const { code, stderr } = await ended;
    expect([code, stderr.includes("dlrm-loadgen: interrupted")]).toEqual([130, true]);
    await server.close();
  });

  test("load processes end when the command is killed", async () => {
    const loaded = Promise.withResolvers<void>();
    const server = await startFakeServer(({ connection, streamId }) => {
      connection.answer(streamId);
      loaded.resolve();
    });
    const { child } = start(`127.0.0.1:${server.port}`, "--shape", shapeFile, "-d", "600");
    await loaded.promise;
    const gone = closedAll(server);
    child.kill("SIGKILL");
    expect(await gone).toBeGreaterThan(0);
    await server.close();
  });

  test("the scenario of MLPerf needs a rate, and no request size", async () => {
    expect(parseArgs(["127.0.0.1:1", "--scenario", "mlperf-server"])).toEqual({ kind: "over", exitCode: 2 });
    expect(parseArgs("127.0.0.1:1 --scenario mlperf-server --rate 9 -b 4".split(" "))).toEqual({
      kind: "over",
      exitCode: 2,
    });
    expect(parseArgs("127.0.0.1:1 --scenario mlperf-server --rate 9".split(" "))).toMatchObject({
      options: { requestSize: "mlperf", mode: { kind: "open", offeredRps: 9 } },
    });
  });

  test("a run in the scenario says whether it is passed, and ends by that", async () => {
    const server = await startFakeServer(({ connection, streamId }) => connection.answer(streamId));
    const args = "--scenario mlperf-server --rate 200 -d 0.3 -w 0 --processes 1 --connections 4".split(" ");
    const { code, stdout, stderr } = await start(`127.0.0.1:${server.port}`, "--shape", shapeFile, ...args).ended;
    await server.close();
    const { examples, requests, scenario } = JSON.parse(stdout) as LoadResult;
    expect(examples / 100).toBeGreaterThanOrEqual(requests);
    expect(examples % 100).toBe(0);
    expect(scenario).toMatchObject({ name: "mlperf-server", p99BoundMs: 60, samplesPerS: requests / 0.3 });
    expect(code).toBe(scenario?.passed === true ? 0 : 1);
    expect(stderr).toContain("open loop, 200 req/s, 100 to 700 examples a request, 4 connections, 1 processes");
    expect(stderr).toContain(`scenario    mlperf-server: ${scenario?.passed === true ? "" : "NOT "}PASSED, `);
  });

  test("an output that cannot be written is wrong usage, said before anything is asked of the server", async () => {
    const { code, stderr, stdout } = await start("127.0.0.1:1", "-o", "/missing/out.json").ended;
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^dlrm-loadgen: cannot write \/missing\/out\.json \(--output\): ENOENT/);
  });

  test.skipIf(!existsSync("/dev/full"))(
    "a result that its file cannot take goes to stdout (needs /dev/full)",
    async () => {
      const server = await startFakeServer(({ connection, streamId }) => connection.answer(streamId));
      const args = ["--shape", shapeFile, "-d", "0.2", "-w", "0", "-c", "1", "--processes", "1", "-o", "/dev/full"];
      const { code, stdout, stderr } = await start(`127.0.0.1:${server.port}`, ...args).ended;
      await server.close();
      expect((JSON.parse(stdout) as LoadResult).requests).toBeGreaterThan(0);
      expect(stderr).toContain("cannot write /dev/full, so the result is on stdout: ENOSPC");
      expect(code).toBe(1);
    },
  );

  test("a run writes its result as JSON and says the main figures on stderr", async () => {
    const server = await startFakeServer(({ connection, streamId }) => connection.answer(streamId));
    const args = ["--shape", shapeFile, "-d", "0.3", "-w", "0", "--rate", "200", "--processes", "1", "-b", "4"];
    const { code, stdout, stderr } = await start(`127.0.0.1:${server.port}`, ...args).ended;
    await server.close();
    const result = JSON.parse(stdout) as { examples: number; requests: number; verdict: { valid: boolean } };
    expect(result.examples).toBe(result.requests * 4);
    expect(code).toBe(result.verdict.valid ? 0 : 1);
    expect(stderr).toMatch(/^making requests and connections\n/);
    expect(stderr).toContain("open loop, 200 req/s, 4 examples a request, 64 connections, 1 processes");
    expect(stderr).toContain("errors      none");
  });
});

describe("parseArgs", () => {
  test("every flag reaches the run", () => {
    const args = parseArgs(
      `[::1]:8500 --rate 1000 -b 16 -d 5 -w 1 --connections 8 --processes 2 --cpus 1 --seed 9 --id-distribution zipf:1.05
       --model m --shape ${shapeFile} --id-type int64 --transport node --pool-examples 100 --max-in-flight 50
       --deadline 20 --drain 3 -o out.json`.split(/\s+/),
    );
    expect(args).toEqual({
      kind: "run",
      output: "out.json",
      shape: JSON.parse(readFileSync(shapeFile, "utf8")) as unknown,
      options: {
        host: "::1",
        port: 8500,
        mode: { kind: "open", offeredRps: 1000 },
        requestSize: 16,
        durationS: 5,
        warmupS: 1,
        connections: 8,
        processes: 2,
        cpus: "1",
        seed: 9,
        idDistribution: { zipf: 1.05 },
        model: "m",
        idType: "int64",
        transport: "node",
        poolExamples: 100,
        maxInFlight: 50,
        deadlineMs: 20,
        drainS: 3,
      },
    });
  });
});
