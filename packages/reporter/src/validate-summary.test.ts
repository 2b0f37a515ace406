import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fixedSummary } from "../test/fixed-summary.ts";
import { ReporterError } from "./reporter-error.ts";
import { summarySchema, validateSummary } from "./validate-summary.ts";

/** The fixed summary as plain data that a test may spoil. */
// oxlint-disable-next-line typescript/no-explicit-any -- a test writes any value anywhere
function plain(): any {
  return JSON.parse(JSON.stringify(fixedSummary()));
}

function problemsOf(value: unknown): readonly string[] {
  try {
    validateSummary(value);
    return [];
  } catch (error) {
    if (error instanceof ReporterError && error.code === "invalid_summary") return error.problems;
    throw error;
  }
}

describe("validateSummary", () => {
  it("accepts a whole summary and gives it back unchanged", () => {
    const summary = plain();
    expect(validateSummary(summary)).toBe(summary);
    expect(summary).toEqual(plain());
  });

  const ROW = {
    device: "d",
    precision: "int8",
    batch: 128,
    numThreads: 2,
    examplesPerS: 5,
    maxAbsError: 0,
    callMicros: [9],
  };

  it("accepts rows of the dense network, measured or not, and warnings", () => {
    const missing = { ...ROW, examplesPerS: null, maxAbsError: null, callMicros: [], whyNot: "no such file" };
    expect(problemsOf({ ...plain(), denseNetwork: [ROW, missing], warnings: ["slow"] })).toEqual([]);
  });

  it.each<[string, unknown, string]>([
    ["a batch of none", { ...ROW, batch: 0 }, "batch: expected a number >= 1, got 0"],
    [
      "an unknown precision",
      { ...ROW, precision: "fp16" },
      'precision: expected one of "float32", "bfloat16", "int8", got "fp16"',
    ],
    ["an error below none", { ...ROW, maxAbsError: -1 }, "maxAbsError: expected a number >= 0, got -1"],
    ["a reason that is no text", { ...ROW, whyNot: 4 }, "whyNot: expected string, got 4"],
    ["an unknown field", { ...ROW, micros: 4 }, "micros: expected no such field, got one"],
    ["no throughput", { ...ROW, examplesPerS: undefined }, "examplesPerS: expected a value, got none"],
  ])("names the problem of a row of the dense network with %s", (_, row, problem) => {
    expect(problemsOf({ ...plain(), denseNetwork: [ROW, row] })).toEqual([`denseNetwork[1].${problem}`]);
  });

  it("accepts a summary with the required fields only", () => {
    expect(
      problemsOf({
        schemaVersion: 1,
        platform: "cpu",
        preset: "dcnv2-smoke",
        simulatedAccelerator: false,
        environment: {},
        settings: {},
        parity: [],
        points: [],
        budgets: [],
      }),
    ).toEqual([]);
  });

  it.each<[string, (summary: ReturnType<typeof plain>) => void, string]>([
    ["another version", (s) => (s.schemaVersion = 2), "schemaVersion: expected 1, got 2"],
    ["no points", (s) => delete s.points, "points: expected a value, got none"],
    ["an unknown field", (s) => (s.pionts = []), "pionts: expected no such field, got one"],
    [
      "an unknown platform",
      (s) => (s.platform = "gpu"),
      'platform: expected one of "cpu", "cuda", "tpu", "sim", got "gpu"',
    ],
    ["a text for a number", (s) => (s.points[0].p99Ms = "12"), 'points[0].p99Ms: expected number or null, got "12"'],
    [
      "a negative amount",
      (s) => (s.points[1].examplesPerS = -1),
      "points[1].examplesPerS: expected a number >= 0, got -1",
    ],
    ["a part of an example", (s) => (s.points[0].bReq = 1.5), "points[0].bReq: expected integer, got 1.5"],
    ["no repeats", (s) => (s.points[0].repeats = []), "points[0].repeats: expected at least 1 item, got 0"],
    [
      "a closed loop without C",
      (s) => (s.points[0].concurrency = null),
      "points[0].concurrency: expected integer, got null",
    ],
    ["a closed loop with a rate", (s) => (s.points[0].offeredRps = 5), "points[0].offeredRps: expected null, got 5"],
    [
      "an open loop without a rate",
      (s) => (s.points[9].offeredRps = null),
      "points[9].offeredRps: expected number, got null",
    ],
    [
      "a count of 0 errors",
      (s) => (s.points[0].errors = { INTERNAL: 0 }),
      "points[0].errors.INTERNAL: expected a number >= 1, got 0",
    ],
    [
      "a winner without arm",
      (s) => (s.budgets[0].engine = { examplesPerS: 1 }),
      "budgets[0].engine.arm: expected a value, got none",
    ],
    [
      "an arm without name",
      (s) => (s.parity[0].arm = ""),
      'parity[0].arm: expected a string that is not empty, got ""',
    ],
    ["a list for an object", (s) => (s.environment = [1]), "environment: expected object, got an array of 1"],
  ])("names the problem of %s", (_, spoil, problem) => {
    const summary = plain();
    spoil(summary);
    expect(problemsOf(summary)).toEqual([problem]);
  });

  it("lists every problem at once", () => {
    const summary = plain();
    summary.preset = 7;
    delete summary.points[0].errors;
    expect(() => validateSummary(summary)).toThrow(
      "not a summary of schema version 1: 2 problems\n  preset: expected string, got 7\n  points[0].errors: expected a value, got none",
    );
  });

  it("refuses whatever else it is given with an error of its own", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(problemsOf(value).length).toBeGreaterThan(0);
      }),
    );
  });

  it("refuses a summary with any required field of a point left out", () => {
    const fields = Object.keys(plain().points[0]);
    for (const field of fields) {
      const summary = plain();
      delete summary.points[0][field];
      expect(problemsOf(summary)).toContain(`points[0].${field}: expected a value, got none`);
    }
  });
});

it("the schema is a draft 2020-12 schema with an id of its version", () => {
  expect(summarySchema["$schema"]).toBe("https://json-schema.org/draft/2020-12/schema");
  expect(summarySchema["$id"]).toMatch(/summary-1\.json$/);
});
