/** What `Clock.schedule` returns and `Clock.cancel` takes. */
export type TimerHandle = unknown;

/** Time as the batcher sees it. Replace it to test without waiting (`FakeClock` of `@dlrm/batcher/testing`). */
export interface Clock {
  /** Monotonic milliseconds with a fraction; only differences mean something. */
  now(): number;
  /**
   * Calls `callback` once, `delayMs` from now or later. A `precise` timer aims at tens of microseconds and may poll
   * the event loop for the last millisecond; the others may be a millisecond late and cost nothing while they wait.
   */
  schedule(callback: () => void, delayMs: number, precise: boolean): TimerHandle;
  /** Forgets a timer. Does nothing for one that has fired. */
  cancel(handle: TimerHandle): void;
}

interface PreciseTimer {
  dueMs: number;
  callback: (() => void) | undefined;
  timeout: ReturnType<typeof setTimeout> | undefined;
}

/** Runs a callback after the I/O that is ready now, without a timer's millisecond. */
const afterIo: (callback: () => void) => void = chooseAfterIo();

function chooseAfterIo(): (callback: () => void) => void {
  const { setImmediate } = globalThis as { setImmediate?: (callback: () => void) => unknown };
  if (setImmediate !== undefined) {
    return (callback) => {
      setImmediate(callback);
    };
  }
  // Browsers: a message to oneself is a task of its own, and unlike setTimeout it is not clamped to 4 ms.
  const waiting: (() => void)[] = [];
  let channel: MessageChannel | undefined;
  return (callback) => {
    if (channel === undefined) {
      channel = new MessageChannel();
      channel.port1.addEventListener("message", () => waiting.shift()?.());
      channel.port1.start();
    }
    waiting.push(callback);
    channel.port2.postMessage(0);
  };
}

/** The least that `setTimeout` can wait, milliseconds: below it, a precise timer polls. */
const TIMEOUT_STEP_MS = 1;
/** The most: one that is to wait longer goes off at once. */
const TIMEOUT_MOST_MS = 2 ** 31 - 1;
/** A precise timer this close to its time fires: another turn of the event loop would take longer. */
const CLOSE_ENOUGH_MS = 0.002;

function advance(timer: PreciseTimer): void {
  if (timer.callback === undefined) {
    return;
  }
  const leftMs = timer.dueMs - performance.now();
  if (leftMs <= CLOSE_ENOUGH_MS) {
    const { callback } = timer;
    timer.callback = undefined;
    callback();
  } else if (leftMs >= TIMEOUT_STEP_MS) {
    // Rounded down, so that the sleep ends before the time and polling covers what is left, less than a step.
    timer.timeout = setTimeout(advance, Math.min(Math.floor(leftMs), TIMEOUT_MOST_MS), timer);
  } else {
    afterIo(() => advance(timer));
  }
}

/** The clock of the machine: `performance.now()` and timers. */
export const systemClock: Clock = {
  now: () => performance.now(),
  schedule(callback, delayMs, precise) {
    const timer: PreciseTimer = { dueMs: performance.now() + delayMs, callback, timeout: undefined };
    if (precise && delayMs < TIMEOUT_STEP_MS) {
      // Never call back before the handle is returned.
      afterIo(() => advance(timer));
    } else if (precise || delayMs > TIMEOUT_MOST_MS) {
      advance(timer);
    } else {
      timer.timeout = setTimeout(callback, Math.max(0, Math.ceil(delayMs)));
    }
    return timer;
  },
  cancel(handle) {
    const timer = handle as PreciseTimer;
    timer.callback = undefined;
    clearTimeout(timer.timeout);
  },
};
