import { BatcherError } from "./batcher-error.ts";
import { MAX_PRIORITY } from "./entry-queue.ts";
import type { ResolvedOptions } from "./options.ts";
import type { SubmitOptions } from "./submit-options.ts";

/** What is wrong with what a caller said of an item, if anything. */
export function findRefusal({ signal, deadlineMs = Infinity, priority = 0 }: SubmitOptions): BatcherError | undefined {
  if (!Number.isInteger(priority) || priority < 0 || priority > MAX_PRIORITY) {
    return invalid(`priority: expected a whole number from 0 to ${MAX_PRIORITY}, received ${String(priority)}`);
  }
  if (typeof deadlineMs !== "number" || Number.isNaN(deadlineMs)) {
    return invalid(`deadlineMs: expected milliseconds from now, received ${String(deadlineMs)}`);
  }
  if (signal?.aborted === true) {
    return cancelled(signal.reason);
  }
  return deadlineMs > 0
    ? undefined
    : new BatcherError("deadline_exceeded", `the deadline had passed ${-deadlineMs} ms before the item came`);
}

/** The size of an item, a whole number from 1. */
export function sizeOfItem<Item, Result>(options: ResolvedOptions<Item, Result>, item: Item): number | BatcherError {
  const { sizeOf } = options;
  if (sizeOf === undefined) {
    return 1;
  }
  try {
    const size = sizeOf(item);
    return Number.isSafeInteger(size) && size >= 1
      ? size
      : invalid(`sizeOf: expected a whole number from 1, received ${String(size)}`);
  } catch (cause) {
    return invalid("sizeOf threw", cause);
  }
}

export interface Part<Item> {
  readonly item: Item;
  readonly size: number;
}

/** The parts of an item of this size, which is larger than a batch; each fits one, and all together the queue. */
export function splitParts<Item, Result>(
  options: ResolvedOptions<Item, Result>,
  item: Item,
  size: number,
): readonly Part<Item>[] | BatcherError {
  const { split, maxBatchSize, maxEnqueuedItems, maxEnqueuedSize } = options;
  if (split === undefined) {
    return tooLarge("maxBatchSize", maxBatchSize, size);
  }
  let items: readonly Item[];
  try {
    items = split(item, maxBatchSize);
  } catch (cause) {
    return invalid("split threw", cause);
  }
  if (!Array.isArray(items) || items.length === 0) {
    return invalid(`split: expected a list of parts, received ${String(items)}`);
  }
  const parts: Part<Item>[] = [];
  let partsSize = 0;
  for (const part of items as readonly Item[]) {
    const partSize = sizeOfItem(options, part);
    if (typeof partSize !== "number") {
      return partSize;
    }
    if (partSize > maxBatchSize) {
      return invalid(`split: expected parts of size ${maxBatchSize} or less, received one of ${partSize}`);
    }
    parts.push({ item: part, size: partSize });
    partsSize += partSize;
  }
  if (partsSize > maxEnqueuedSize) {
    return tooLarge("maxEnqueuedSize", maxEnqueuedSize, partsSize);
  }
  return parts.length > maxEnqueuedItems ? tooLarge("maxEnqueuedItems", maxEnqueuedItems, parts.length) : parts;
}

export function cancelled(reason: unknown): BatcherError {
  return new BatcherError("cancelled", "the item was cancelled", { cause: reason });
}

/** What is wrong with the outcome of a run, if anything. */
export function findProblem(results: unknown, items: number): string | undefined {
  if (typeof results !== "object" || results === null || typeof (results as { length?: unknown }).length !== "number") {
    const received = results === null ? "null" : typeof results;
    return `the run of the batch must give a list of ${items} results, one an item, but gave ${received}`;
  }
  const { length } = results as ArrayLike<unknown>;
  return length === items
    ? undefined
    : `the run of the batch must give ${items} results, one an item, but gave ${length}`;
}

function invalid(message: string, cause?: unknown): BatcherError {
  return new BatcherError("invalid_argument", message, cause === undefined ? {} : { cause });
}

function tooLarge(limitName: string, limit: number, size: number): BatcherError {
  return new BatcherError("too_large", `the item is too large: its size is ${size}, and ${limitName} is ${limit}`, {
    limitName,
    limit,
    current: size,
  });
}
