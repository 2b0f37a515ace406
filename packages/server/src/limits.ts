import { largestBodyBytes } from "./body-budget.ts";
import { FRAME_HEADER_BYTES } from "./framed-message.ts";
import type { ServerLimits } from "./model-metadata.ts";
import type { ModelPlan } from "./model-plan.ts";
import { ServerError } from "./server-error.ts";
import type { LimitOptions } from "./server-options.ts";
import { MAX_INCOMPLETE_BYTES_PER_CONNECTION } from "./transport.ts";

const DEFAULT_MAX_EXAMPLES_PER_REQUEST = 4096;
const MEBIBYTE = 1024 * 1024;
/** At least so many bytes of requests may be buffered by default, */
export const DEFAULT_MAX_BUFFERED_BYTES: number = 256 * MEBIBYTE;
/** and at least so many of the largest messages. */
const DEFAULT_BUFFERED_MESSAGES = 4;
const INT32_BYTES = 4;
const INT64_BYTES = 8;
const FLOAT32_BYTES = 4;
/** Name, data type, shape and field headers of a tensor, as JSON written by hand, without the length of the name. */
const TENSOR_OVERHEAD_BYTES = 256;
const MESSAGE_OVERHEAD_BYTES = 4096;
/** Base64, and line breaks in it. */
const JSON_EXPANSION = 1.36;

/** Limits of a server for a model; throws `invalid_options` with all contradictions. */
export function resolveLimits(options: LimitOptions, plan: ModelPlan, buckets: readonly number[]): ServerLimits {
  const largestBucket = buckets.at(-1) ?? 0;
  const maxBatchSize = options.maxBatchSize ?? largestBucket;
  const maxExamplesPerRequest =
    options.maxExamplesPerRequest ?? Math.max(DEFAULT_MAX_EXAMPLES_PER_REQUEST, maxBatchSize);
  const maxEnqueuedExamples = options.maxEnqueuedExamples ?? 4 * Math.max(maxBatchSize, maxExamplesPerRequest);
  const bytesPerExample = exampleBytes(plan);
  const maxEnqueuedBytes = options.maxEnqueuedBytes ?? maxEnqueuedExamples * bytesPerExample;
  const maxMessageBytes = options.maxMessageBytes ?? largestMessageBytes(plan, maxExamplesPerRequest);
  const maxBufferedBytes =
    options.maxBufferedBytes ?? Math.max(DEFAULT_MAX_BUFFERED_BYTES, DEFAULT_BUFFERED_MESSAGES * maxMessageBytes);
  const largestBuffered = largestBodyBytes(maxMessageBytes);
  const problems: string[] = [];
  if (maxBatchSize > largestBucket) {
    problems.push(
      `maxBatchSize (--max-batch-size) is ${maxBatchSize}, over the bundle's largest bucket, ${largestBucket}`,
    );
  }
  if (maxEnqueuedExamples < maxExamplesPerRequest) {
    problems.push(
      `maxEnqueuedExamples (--max-enqueued-examples) is ${maxEnqueuedExamples}, so that a request of ` +
        `maxExamplesPerRequest (--max-examples-per-request), ${maxExamplesPerRequest}, could never be taken`,
    );
  }
  const mustFit = Math.max(maxBatchSize, maxExamplesPerRequest);
  if (options.maxEnqueuedBytes !== undefined && maxEnqueuedBytes < mustFit * bytesPerExample) {
    problems.push(
      `maxEnqueuedBytes (--max-enqueued-bytes) is ${maxEnqueuedBytes}, less than the ${mustFit * bytesPerExample} bytes of ` +
        `${mustFit} examples, the largest batch or request`,
    );
  }
  if (maxBufferedBytes < largestBuffered) {
    problems.push(
      `maxBufferedBytes (--max-buffered-bytes) is ${maxBufferedBytes}, less than the ${largestBuffered} bytes that a compressed ` +
        `message of maxMessageBytes (--max-message-bytes), ${maxMessageBytes}, may need`,
    );
  }
  if (problems.length > 0) throw new ServerError("invalid_options", problems.join("; "));
  return {
    maxMessageBytes,
    maxExamplesPerRequest,
    maxBatchSize,
    maxEnqueuedExamples,
    maxEnqueuedBytes,
    maxBufferedBytes,
    maxIncompleteBytesPerConnection: Math.max(
      MAX_INCOMPLETE_BYTES_PER_CONNECTION,
      FRAME_HEADER_BYTES + maxMessageBytes,
    ),
  };
}

/** What an example that waits has: ids and dense features, 4 bytes each. */
export function exampleBytes({ idsPerExample, denseFeatures }: ModelPlan): number {
  return idsPerExample * INT32_BYTES + denseFeatures * FLOAT32_BYTES;
}

/** What a request of `examples` can take: int64 ids, as JSON. */
function largestMessageBytes(plan: ModelPlan, examples: number): number {
  const dataBytes = examples * (plan.idsPerExample * INT64_BYTES + plan.denseFeatures * FLOAT32_BYTES);
  const names = plan.inputs.reduce(
    (sum, { name }) => sum + name.length + TENSOR_OVERHEAD_BYTES,
    MESSAGE_OVERHEAD_BYTES,
  );
  const bytes = Math.ceil(dataBytes * JSON_EXPANSION) + names;
  return Math.min(Math.ceil(bytes / MEBIBYTE) * MEBIBYTE, 2 ** 31 - 1);
}
