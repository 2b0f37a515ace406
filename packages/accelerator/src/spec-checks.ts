import { AcceleratorError } from "./errors.ts";
import type { CallerSettings, CommonSettings, CommonSpec } from "./device-spec.ts";
import type { TensorSpec } from "./device.ts";

/** Collects everything wrong with a spec, so that one error can say it all. */
export class Problems {
  readonly #found: string[] = [];

  expect(holds: boolean, name: string, expected: string, got: unknown): void {
    if (!holds) this.#found.push(`${name} must be ${expected}, got ${describe(got)}`);
  }

  throwIfAny(kind: string): void {
    if (this.#found.length > 0) {
      throw new AcceleratorError("invalid_spec", `invalid ${kind} device: ${this.#found.join("; ")}`);
    }
  }
}

function describe(value: unknown): string {
  if (typeof value === "number" || value === undefined) return String(value);
  if (ArrayBuffer.isView(value)) return `${value.constructor.name} of ${value.byteLength} bytes`;
  if (typeof value === "function") return "a function";
  return JSON.stringify(value, (_key, item: unknown) => (typeof item === "bigint" ? `${item}n` : item));
}

export const isPositiveInteger: (value: unknown) => boolean = (value) =>
  Number.isInteger(value) && (value as number) > 0;
export const isDuration: (value: unknown) => boolean = (value) => typeof value === "number" && value >= 0;

/** Ring positions are int32 words, and a bucket's index shares a number with an offset: both have room far beyond this. */
export const MAX_BUCKETS = 64;
const MAX_QUEUED_CALLS = 65_536;

export function checkBuckets(buckets: unknown, problems: Problems): readonly number[] {
  const holds =
    Array.isArray(buckets) &&
    buckets.length > 0 &&
    buckets.length <= MAX_BUCKETS &&
    buckets.every(isPositiveInteger) &&
    new Set(buckets).size === buckets.length;
  problems.expect(holds, "buckets", `1 to ${MAX_BUCKETS} distinct positive integers`, buckets);
  return holds ? [...(buckets as number[])].sort((a, b) => a - b) : [];
}

/** Throws `invalid_spec` unless `bucket` may be added to `buckets`, with a program if and only if the device takes one. */
export function checkAddedBucket(
  bucket: unknown,
  buckets: readonly number[],
  program: unknown,
  takesPrograms: boolean,
): void {
  const problems = new Problems();
  problems.expect(isPositiveInteger(bucket), "bucket", "a positive integer", bucket);
  problems.expect(!buckets.includes(bucket as number), "bucket", `none of ${buckets.join(", ")}`, bucket);
  problems.expect(buckets.length < MAX_BUCKETS, "bucket", `the ${MAX_BUCKETS}th at most`, buckets.length + 1);
  const isProgram = (typeof program === "string" || program instanceof Uint8Array) && program.length > 0;
  if (takesPrograms) problems.expect(isProgram, "program", "MLIR, text or bytecode", program);
  else problems.expect(program === undefined, "program", "undefined", program);
  problems.throwIfAny("compile() of a");
}

export function checkTensorSpecs(name: string, specs: unknown, problems: Problems): void {
  const holds =
    Array.isArray(specs) &&
    specs.length > 0 &&
    specs.every(
      (spec: Partial<TensorSpec> | null) =>
        typeof spec?.name === "string" && Array.isArray(spec.width) && spec.width.every(isPositiveInteger),
    ) &&
    new Set(specs.map((spec: TensorSpec) => spec.name)).size === specs.length;
  problems.expect(holds, name, "a list of { name, width: positive integers } with distinct names", specs);
}

export function checkCommon(spec: CommonSpec, problems: Problems): CommonSettings & CallerSettings {
  const { warmUpBudgetMs = 10_000, maxQueuedCalls = 64, callTimeoutMs = 60_000, openTimeoutMs = 300_000 } = spec;
  problems.expect(isDuration(warmUpBudgetMs), "warmUpBudgetMs", "a number ≥ 0", warmUpBudgetMs);
  checkMaxQueuedCalls(maxQueuedCalls, problems);
  problems.expect(isDuration(callTimeoutMs) && callTimeoutMs > 0, "callTimeoutMs", "a number > 0", callTimeoutMs);
  problems.expect(isDuration(openTimeoutMs) && openTimeoutMs > 0, "openTimeoutMs", "a number > 0", openTimeoutMs);
  const { delayMs = 1000, maxAttempts = 1 } = spec.reopen ?? {};
  problems.expect(isDuration(delayMs), "reopen.delayMs", "a number ≥ 0", delayMs);
  const isCount = isPositiveInteger(maxAttempts) || maxAttempts === Number.POSITIVE_INFINITY;
  problems.expect(isCount, "reopen.maxAttempts", "a positive integer or Infinity", maxAttempts);
  return {
    buckets: checkBuckets(spec.buckets, problems),
    warmUpBudgetMs,
    maxQueuedCalls,
    callTimeoutMs,
    openTimeoutMs,
  };
}

export function checkMaxQueuedCalls(maxQueuedCalls: number, problems: Problems): void {
  const holds = isPositiveInteger(maxQueuedCalls) && maxQueuedCalls <= MAX_QUEUED_CALLS;
  problems.expect(holds, "maxQueuedCalls", `an integer from 1 to ${MAX_QUEUED_CALLS}`, maxQueuedCalls);
}
