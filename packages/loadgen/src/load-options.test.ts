import { describe, expect, test } from "vitest";
import { formatCpuList, parseCpuList } from "./cpu-list.ts";
import { fillLoadOptions, type LoadOptions } from "./load-options.ts";
import { planShares } from "./share-plan.ts";

const good: LoadOptions = {
  host: "127.0.0.1",
  port: 8500,
  shape: { denseFeatures: 13, features: [{ name: "sparse_0", vocabularySize: 10, hotSize: 1 }] },
  requestSize: 1,
  mode: { kind: "closed", concurrency: 1 },
};

const EXPECTED_OPTIONS =
  "expected only host, port, shape, model, idType, requestSize, mode, connections, processes, warmupS, durationS, seed, idDistribution, " +
  "cpus, transport, poolExamples, maxInFlight, lateAfterMicros, deadlineMs, drainS, onProgress, signal";

describe("fillLoadOptions", () => {
  test("fills in the documented defaults", () => {
    expect(fillLoadOptions(good)).toEqual({
      ...good,
      model: "",
      idType: "int32",
      connections: 64,
      processes: undefined,
      warmupS: 2,
      durationS: 10,
      seed: 1,
      idDistribution: "uniform",
      cpus: undefined,
      transport: "h2",
      poolExamples: 16_384,
      maxInFlight: 10_000,
      lateAfterMicros: 1000,
      deadlineMs: undefined,
      drainS: 10,
    });
  });

  test.each<[Partial<Record<string, unknown>>, string]>([
    [{ durationMs: 10_000 }, `there is no option durationMs, ${EXPECTED_OPTIONS}`],
    [{ concurrency: 4 }, `there is no option concurrency, ${EXPECTED_OPTIONS}`],
    [{ port: 0 }, "port must be an integer from 1 to 65535, got 0"],
    [{ port: 65_536 }, "port must be an integer from 1 to 65535, got 65536"],
    [{ host: "" }, 'host must be a name or an address, got ""'],
    [{ requestSize: 0 }, "requestSize must be an integer from 1 to 65536, got 0"],
    [{ requestSize: 1.5 }, "requestSize must be an integer from 1 to 65536, got 1.5"],
    [{ requestSize: Number.NaN }, "requestSize must be an integer from 1 to 65536, got NaN"],
    [{ mode: { kind: "closed", concurrency: 0 } }, "mode.concurrency must be an integer from 1 to 1000000, got 0"],
    [{ mode: { kind: "open", offeredRps: 0 } }, "mode.offeredRps must be a number from 0.001 to 10000000, got 0"],
    [{ mode: { kind: "ajar" } }, 'mode.kind must be "closed" or "open", got "ajar"'],
    [{ mode: undefined }, 'mode.kind must be "closed" or "open", got undefined'],
    [{ connections: 2, processes: 3 }, "processes (3) must not exceed connections (2)"],
    [{ idDistribution: { zipf: 0 } }, "idDistribution.zipf must be a number from 0.01 to 10, got 0"],
    [{ transport: "quic" }, 'transport must be "h2" or "node", got "quic"'],
    [{ idType: "int8" }, 'idType must be "int32" or "int64", got "int8"'],
    [{ cpus: "3-1" }, 'cpus must be a list such as "0-3,8", got "3-1"'],
    [{ durationS: 0 }, "durationS must be a number from 0.001 to 86400, got 0"],
    [{ deadlineMs: 0 }, "deadlineMs must be an integer from 1 to 86400000, got 0"],
    [{ shape: {} }, "shape must be { denseFeatures, features }, got {}"],
    [
      { shape: { denseFeatures: -1, features: [{ name: "", vocabularySize: 0, hotSize: 0 }] } },
      "shape.denseFeatures must be an integer from 0 to 1000000, got -1; " +
        'shape.features[0].name must be the name of an input, got ""; ' +
        "shape.features[0].vocabularySize must be an integer from 1 to 2147483648, got 0; " +
        "shape.features[0].hotSize must be an integer from 1 to 65536, got 0",
    ],
  ])("refuses %j", (change, message) => {
    expect(() => fillLoadOptions({ ...good, ...change })).toThrow(
      expect.objectContaining({ code: "invalid_options", message }),
    );
  });

  test("names everything that is wrong at once", () => {
    expect(() => fillLoadOptions({ ...good, port: -1, seed: -1 })).toThrow(/^port must .*; seed must /);
  });
});

describe("planShares", () => {
  const plan = (change: Partial<LoadOptions>, cpus: number): [connections: number, callers: number][] =>
    planShares(fillLoadOptions({ ...good, ...change }), cpus).map((share) => [share.connections, share.callers]);
  const closed = (concurrency: number): Partial<LoadOptions> => ({ mode: { kind: "closed", concurrency } });

  test.each<[string, Partial<LoadOptions>, number, [number, number][]]>([
    ["one caller needs one connection and one process", closed(1), 8, [[1, 1]]],
    [
      "callers are spread evenly",
      { ...closed(64), processes: 2 },
      1,
      [
        [32, 32],
        [32, 32],
      ],
    ],
    [
      "more callers than connections share them",
      { ...closed(256), processes: 2 },
      8,
      [
        [32, 128],
        [32, 128],
      ],
    ],
    [
      "what cannot be even differs by one",
      { ...closed(7), connections: 5, processes: 2 },
      8,
      [
        [3, 4],
        [2, 3],
      ],
    ],
    [
      "processes are the CPUs by default",
      closed(64),
      3,
      [
        [22, 22],
        [21, 21],
        [21, 21],
      ],
    ],
    [
      "an open loop opens all its connections",
      { mode: { kind: "open", offeredRps: 10 }, connections: 5 },
      2,
      [
        [3, 0],
        [2, 0],
      ],
    ],
  ])("%s", (_, change, cpus, expected) => {
    expect(plan(change, cpus)).toEqual(expected);
  });

  test("no more than 8 processes by default", () => {
    expect(plan(closed(64), 96)).toHaveLength(8);
  });
});

describe("CPU lists", () => {
  test.each([
    ["1", [1]],
    ["0-3,8", [0, 1, 2, 3, 8]],
    ["0-6:2", [0, 2, 4, 6]],
    [" 3, 1 ,1-2 ", [1, 2, 3]],
    ["", undefined],
    ["a", undefined],
    ["1-", undefined],
    ["2-1", undefined],
    ["0-4:0", undefined],
    ["1,,2", undefined],
    ["-1", undefined],
  ])("%j", (text, cpus) => {
    expect(parseCpuList(text)).toEqual(cpus);
  });

  test.each([
    [[], ""],
    [[5], "5"],
    [[3, 1, 2, 8, 8], "1-3,8"],
  ])("%j is formatted as %j", (cpus, text) => {
    expect(formatCpuList(cpus)).toBe(text);
  });
});
