import { parseGrpcTimeoutMs } from "./grpc-headers.ts";
import { ServerError } from "./server-error.ts";

/** Longest that a timer of Node's waits, 24 days; one that is to wait longer goes off at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const GRPC_TIMEOUT = "grpc-timeout";
const CONNECT_TIMEOUT = "connect-timeout-ms";

/** What a call is refused with whose body has not ended in time. */
export function deadlinePassed(): ServerError {
  return new ServerError("deadline_exceeded", "the deadline passed before the request had come whole");
}

/**
 * Milliseconds that the headers of a call give it, by the header of its protocol; undefined without a limit, or with one that is
 * malformed, which whoever answers the call refuses.
 */
export function timeoutOf(header: Headers): number | undefined {
  const name = timeoutHeader(header);
  const value = header.get(name);
  if (value === null) return undefined;
  if (name === CONNECT_TIMEOUT) return /^\d{1,10}$/u.test(value) ? Number(value) : undefined;
  try {
    return parseGrpcTimeoutMs(value);
  } catch {
    return undefined;
  }
}

/** Takes a time away that is longer than a timer can wait: Connect's own timer for it would go off at once. */
export function dropDistantDeadline(header: Headers): void {
  if ((timeoutOf(header) ?? 0) > MAX_TIMER_MS) header.delete(timeoutHeader(header));
}

function timeoutHeader(header: Headers): typeof GRPC_TIMEOUT | typeof CONNECT_TIMEOUT {
  return /^application\/grpc/iu.test(header.get("content-type") ?? "") ? GRPC_TIMEOUT : CONNECT_TIMEOUT;
}

/**
 * The body of a call that has `timeoutMs` from now, no more than a timer can wait: after them it fails with `deadline_exceeded`, though no more of it comes.
 * `onPassed` is told before.
 */
export function untilDeadline(
  source: AsyncIterable<Uint8Array>,
  timeoutMs: number | undefined,
  onPassed: () => void,
): AsyncIterable<Uint8Array> {
  if (timeoutMs === undefined) return source;
  return readUntil(source, performance.now() + timeoutMs, onPassed);
}

async function* readUntil(
  source: AsyncIterable<Uint8Array>,
  deadlineAtMs: number,
  onPassed: () => void,
): AsyncGenerator<Uint8Array> {
  const pieces = source[Symbol.asyncIterator]();
  let isPassed = false;
  /** Ends the wait for the piece that is awaited. */
  let stopWaiting = (): void => {};
  const pass = (): void => {
    isPassed = true;
    onPassed();
    stopWaiting();
  };
  const timer = setTimeout(pass, Math.max(0, deadlineAtMs - performance.now())).unref();
  try {
    for (;;) {
      const piece = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        stopWaiting = () => reject(deadlinePassed());
        if (isPassed) stopWaiting();
        else pieces.next().then(resolve, reject);
      });
      if (piece.done === true) return;
      yield piece.value;
    }
  } finally {
    clearTimeout(timer);
    // Not awaited: it waits for the piece that does not come. How that fails is of no interest.
    pieces.return?.().catch(() => {});
  }
}
