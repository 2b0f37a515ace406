import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import { ReporterError } from "./reporter-error.ts";
import schema from "./summary.schema.json" with { type: "json" };
import type { Summary } from "./summary.ts";

/** The JSON Schema (2020-12) of `summary.json`. */
export const summarySchema: Readonly<Record<string, unknown>> = schema;

let compiled: ValidateFunction<Summary> | undefined;

/**
 * Returns `value` typed, unchanged.
 *
 * @throws ReporterError `invalid_summary` with every problem: its path, what was expected and what came.
 */
export function validateSummary(value: unknown): Summary {
  // `verbose` puts the offending data into each error; the two strict checks dislike `type` lists and partial `then`s.
  compiled ??= new Ajv2020({ allErrors: true, verbose: true, strictTypes: false, strictRequired: false }).compile(
    schema,
  );
  if (compiled(value)) return value;
  const problems = [...new Set((compiled.errors ?? []).filter((error) => error.keyword !== "if").map(describe))];
  throw new ReporterError(
    "invalid_summary",
    `not a summary of schema version 1: ${problems.length === 1 ? "1 problem" : `${problems.length} problems`}\n` +
      problems.map((problem) => `  ${problem}`).join("\n"),
    problems,
  );
}

function describe(error: ErrorObject): string {
  const path = readablePath(error.instancePath);
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case "required":
      return `${join(path, String(params["missingProperty"]))}: expected a value, got none`;
    case "additionalProperties":
      return `${join(path, String(params["additionalProperty"]))}: expected no such field, got one`;
    case "type":
      return `${path}: expected ${[params["type"]].flat().join(" or ")}, got ${show(error.data)}`;
    case "const":
      return `${path}: expected ${JSON.stringify(params["allowedValue"])}, got ${show(error.data)}`;
    case "enum":
      return `${path}: expected one of ${(params["allowedValues"] as unknown[]).map((item) => JSON.stringify(item)).join(", ")}, got ${show(error.data)}`;
    case "minimum":
    case "exclusiveMinimum":
      return `${path}: expected a number ${String(params["comparison"])} ${String(params["limit"])}, got ${show(error.data)}`;
    case "minItems":
      return `${path}: expected at least ${String(params["limit"])} item, got ${(error.data as unknown[]).length}`;
    case "minLength":
      return `${path}: expected a string that is not empty, got ${show(error.data)}`;
    default:
      return `${path}: ${error.message ?? error.keyword}, got ${show(error.data)}`;
  }
}

/** `/points/0/p99Ms` → `points[0].p99Ms`; the root is `summary`. */
function readablePath(pointer: string): string {
  let path = "";
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    path = /^\d+$/.test(name) ? `${path}[${name}]` : join(path, name);
  }
  return path === "" ? "summary" : path;
}

function join(path: string, name: string): string {
  return path === "" || path === "summary" ? name : `${path}.${name}`;
}

function show(data: unknown): string {
  if (Array.isArray(data)) return `an array of ${data.length}`;
  if (typeof data === "object" && data !== null) return "an object";
  if (typeof data === "number" || typeof data === "undefined") return String(data);
  const text = JSON.stringify(data);
  return text.length > 60 ? `${text.slice(0, 57)}…"` : text;
}
