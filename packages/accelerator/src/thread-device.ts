import { performance } from "node:perf_hooks";
import { receiveMessageOnPort, type MessagePort, type Worker } from "node:worker_threads";
import type { InputTransferCounts } from "./backend.ts";
import { BufferNumbers } from "./buffer-table.ts";
import { CallChecker, cancelled, queueFull, type CheckedCall } from "./call-checker.ts";
import { CALL_CANCELLED, CALL_DONE, CallRing } from "./call-ring.ts";
import type {
  Device,
  DeviceMemory,
  DeviceStats,
  ExecuteOptions,
  NamedTensors,
  PrecisionReport,
  TensorSpec,
  WarmUpReport,
} from "./device.ts";
import { endThread } from "./end-thread.ts";
import { AcceleratorError, fromErrorRecord } from "./errors.ts";
import { SPIN_MS, spinsAfter } from "./short-calls.ts";
import { StatsCounter } from "./stats-counter.ts";
import { checkAddedBucket } from "./spec-checks.ts";
import type { CompiledMessage, LetterToCaller, LetterToThread, ThreadReady } from "./thread-protocol.ts";

export type ThreadDeviceKind = "onnxruntime" | "pjrt" | "simulated";

export interface ThreadDeviceOptions {
  readonly kind: ThreadDeviceKind;
  readonly buckets: readonly number[];
  readonly maxQueuedCalls: number;
  readonly callTimeoutMs: number;
  /** How long a compile may take. */
  readonly compileTimeoutMs: number;
  readonly worker: Worker;
  readonly letters: MessagePort;
  readonly ready: ThreadReady;
}

interface PendingCall {
  readonly slot: number;
  /** Its tensors are kept until it has ended: were a buffer in use garbage, the thread would be told to forget it. */
  readonly checked: CheckedCall;
  readonly resolve: () => void;
  readonly reject: (error: AcceleratorError) => void;
  readonly stopListening: (() => void) | undefined;
}

interface PendingCompile {
  readonly bucket: number;
  readonly resolve: () => void;
  readonly reject: (error: AcceleratorError) => void;
}

/**
 * - `open`: takes calls.
 * - `closing`: takes none; accepted ones end, then the thread.
 * - `lost`: the thread ended, or was given up; every call rejects with `error`.
 */
type State =
  | { readonly status: "open" }
  | { readonly status: "closing" }
  | { readonly status: "lost"; readonly error: AcceleratorError };

/** setTimeout takes no longer delay. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The caller's end of a device that runs in a thread of its own. */
export class ThreadDevice implements Device {
  readonly kind: ThreadDeviceKind;
  readonly name: string;
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly warmUp: WarmUpReport;
  readonly precision: PrecisionReport;
  readonly memory: DeviceMemory;
  readonly maxInFlight: number;

  readonly #maxQueuedCalls: number;
  readonly #callTimeoutMs: number;
  readonly #compileTimeoutMs: number;
  readonly #worker: Worker;
  /** Settles when the thread has ended, or was left to itself. */
  readonly #ended: PromiseWithResolvers<void> = Promise.withResolvers<void>();
  readonly #letters: MessagePort;
  readonly #ring: CallRing;
  readonly #inputTransfers: InputTransferCounts | undefined;
  readonly #checker: CallChecker;
  readonly #bufferNumbers: BufferNumbers;
  readonly #counter: StatsCounter;
  /** By slot. A slot is taken iff its call was submitted and is not yet settled as completed. */
  readonly #compiling: PendingCompile[] = [];
  readonly #pending: (PendingCall | undefined)[];
  /** Calls whose completion was handled; `submitted - #handled` are in flight. */
  #handled = 0;
  #submitted = 0;
  #listening = false;
  /** How long the last call took: after a short one, the end of the next is looked for before it is slept for. */
  #lastCallMs = Number.POSITIVE_INFINITY;
  readonly #lost: PromiseWithResolvers<AcceleratorError> = Promise.withResolvers<AcceleratorError>();
  #state: State = { status: "open" };
  #watchdog: NodeJS.Timeout | undefined;
  /**
   * When a call last ended, the first call or compile that is waited for was asked for, or a compile began or ended: the
   * moment the watchdog counts from.
   */
  #progressAtMs = 0;
  /** The ring's count of compiles as the watchdog saw it last. */
  #compilesSeen = 0;

  constructor(options: ThreadDeviceOptions) {
    const { kind, buckets, maxQueuedCalls, callTimeoutMs, compileTimeoutMs, worker, letters, ready } = options;
    this.kind = kind;
    this.name = ready.name;
    this.platform = ready.platform;
    this.inputs = ready.inputs;
    this.outputs = ready.outputs;
    this.warmUp = ready.warmUp;
    this.precision = ready.precision;
    this.memory = ready.memory;
    this.maxInFlight = ready.maxInFlight;
    this.#maxQueuedCalls = maxQueuedCalls;
    this.#callTimeoutMs = callTimeoutMs;
    this.#compileTimeoutMs = Math.max(callTimeoutMs, compileTimeoutMs);
    this.#worker = worker;
    this.#letters = letters;
    this.#ring = new CallRing(ready.ring.buffer, ready.inputs.length + ready.outputs.length, ready.ring.capacity);
    this.#inputTransfers = ready.inputTransfers;
    this.#checker = new CallChecker(buckets, ready.inputs, ready.outputs);
    this.#bufferNumbers = new BufferNumbers(
      (id, buffer) => this.#post({ type: "buffer", id, buffer }),
      (id) => this.#post({ type: "forget", id }),
    );
    this.#counter = new StatsCounter(buckets);
    this.#pending = Array.from({ length: ready.ring.capacity });

    let failure: unknown;
    worker.on("error", (error) => {
      failure = error;
    });
    worker.on("message", (message: CompiledMessage) => this.#onCompiled(message));
    worker.once("exit", (exitCode) => this.#onExit(exitCode, failure));
  }

  get stats(): DeviceStats {
    const stats = this.#counter.snapshot(this.#inFlight);
    const counts = this.#inputTransfers;
    if (counts === undefined) return stats;
    return { ...stats, inputTransfers: { inPlace: Number(counts[0]), copied: Number(counts[1]) } };
  }

  get buckets(): readonly number[] {
    return this.#checker.buckets;
  }

  get lost(): Promise<AcceleratorError> {
    return this.#lost.promise;
  }

  async compile(program: string | Uint8Array | undefined, bucket: number): Promise<void> {
    this.#refuseUnlessOpen();
    const taken = [...this.buckets, ...this.#compiling.map((pending) => pending.bucket)];
    checkAddedBucket(bucket, taken, program, this.kind === "pjrt");
    await new Promise<void>((resolve, reject) => {
      if (!this.#isAwaited) this.#progressAtMs = performance.now();
      this.#compiling.push({ bucket, resolve, reject });
      this.#post({ type: "compile", bucket, program });
      this.#watch();
    });
  }

  #onCompiled({ error }: CompiledMessage): void {
    const compile = this.#compiling.shift();
    // The device was lost while the message was on its way.
    if (compile === undefined) return;
    this.#noteCompiles();
    const { bucket, resolve, reject } = compile;
    if (error !== undefined) {
      reject(fromErrorRecord(error));
      return;
    }
    this.#checker.addBucket(bucket);
    this.#counter.addBucket(bucket);
    resolve();
  }

  execute(bucket: number, inputs: NamedTensors, outputs: NamedTensors, options?: ExecuteOptions): Promise<void> {
    try {
      return this.#submit(bucket, inputs, outputs, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  settleEnded(): void {
    this.#settleCompleted();
  }

  close(): Promise<void> {
    if (this.#state.status === "open") {
      this.#state = { status: "closing" };
      this.#ring.announceClosing();
    }
    return this.#ended.promise;
  }

  get #inFlight(): number {
    return (this.#submitted - this.#handled) | 0;
  }

  /** Whether somebody waits for the thread: for a call to end, or a compile. */
  get #isAwaited(): boolean {
    return this.#inFlight > 0 || this.#compiling.length > 0;
  }

  #refuseUnlessOpen(): void {
    if (this.#state.status === "lost") throw this.#state.error;
    if (this.#state.status === "closing") throw new AcceleratorError("closed", `${this.name} is closed`);
  }

  #submit(bucket: number, inputs: NamedTensors, outputs: NamedTensors, options?: ExecuteOptions): Promise<void> {
    this.#refuseUnlessOpen();
    const checked = this.#checker.check(bucket, inputs, outputs, options);
    if (this.#inFlight >= this.#maxQueuedCalls) throw queueFull(this.#maxQueuedCalls);
    const { tensors, bucketIndex } = checked;
    const slot = this.#ring.slotOf(this.#submitted);
    for (let i = 0; i < tensors.length; i++) {
      const tensor = tensors[i]!;
      this.#ring.setTensor(slot, i, this.#bufferNumbers.idOf(tensor.buffer), tensor.byteOffset / 4);
    }
    return new Promise((resolve, reject) => {
      const stopListening = options?.signal && this.#cancelOnAbort(options.signal, slot, reject);
      this.#pending[slot] = { slot, checked, resolve, reject, stopListening };
      if (!this.#isAwaited) this.#progressAtMs = performance.now();
      this.#submitted = (this.#submitted + 1) | 0;
      this.#ring.submit(bucketIndex);
      this.#listen();
      this.#watch();
    });
  }

  #cancelOnAbort(signal: AbortSignal, slot: number, reject: (error: AcceleratorError) => void): () => void {
    const onAbort = (): void => {
      // The slot stays taken until the thread has passed it; only the promise is settled now.
      if (this.#ring.cancel(slot)) reject(cancelled(signal));
    };
    signal.addEventListener("abort", onAbort, { once: true });
    return () => signal.removeEventListener("abort", onAbort);
  }

  #post(letter: LetterToThread): void {
    if (this.#state.status === "lost") return;
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
    this.#letters.postMessage(letter);
    this.#ring.announceLetter();
  }

  /** Waits for completions, with one wait at a time however many calls are in flight, and none when there are none. */
  #listen(): void {
    if (this.#listening) return;
    for (;;) {
      this.#settleCompleted();
      if (this.#inFlight === 0) return;
      if (spinsAfter(this.#lastCallMs)) {
        this.#poll(performance.now() + SPIN_MS);
        return;
      }
      if (this.#sleep()) return;
    }
  }

  /** False if there is something to settle already. */
  #sleep(): boolean {
    const change = this.#ring.completedChange(this.#handled);
    if (change === undefined) return false;
    void this.#listenAfter(change);
    return true;
  }

  /** Looks once in every turn of the loop, which goes on, until that moment. */
  #poll(untilMs: number): void {
    this.#listening = true;
    setImmediate(() => {
      this.#listening = false;
      // None are in flight if the device was lost meanwhile.
      if (this.#inFlight > 0 && this.#ring.completed === this.#handled) {
        if (performance.now() < untilMs) {
          this.#poll(untilMs);
          return;
        }
        if (this.#sleep()) return;
      }
      this.#listen();
    });
  }

  async #listenAfter(change: Promise<unknown>): Promise<void> {
    this.#listening = true;
    await change;
    this.#listening = false;
    this.#listen();
  }

  #settleCompleted(): void {
    if (this.#state.status === "lost") return;
    const completed = this.#ring.completed;
    if (completed === this.#handled) return;
    this.#progressAtMs = performance.now();
    while (this.#handled !== completed) {
      const slot = this.#ring.slotOf(this.#handled);
      const call = this.#pending[slot]!;
      this.#pending[slot] = undefined;
      this.#handled = (this.#handled + 1) | 0;
      this.#settle(call);
    }
  }

  #settle(call: PendingCall): void {
    call.stopListening?.();
    const state = this.#ring.stateOf(call.slot);
    if (state === CALL_CANCELLED) {
      this.#counter.countCancelled();
      return;
    }
    const busyMicros = this.#ring.busyMicrosOf(call.slot);
    this.#lastCallMs = busyMicros / 1000;
    if (state === CALL_DONE) {
      this.#counter.countDone(call.checked.bucketIndex, call.checked.rows, busyMicros);
      call.resolve();
      return;
    }
    this.#counter.countFailed(busyMicros);
    const letter: LetterToCaller | undefined = receiveMessageOnPort(this.#letters)?.message;
    call.reject(letter ? fromErrorRecord(letter.error) : new AcceleratorError("run_failed", `${this.name} failed`));
  }

  /** Calls wait for a compile that has begun, and for none that is still behind a call. */
  #noteCompiles(): void {
    const { compiles } = this.#ring;
    if (compiles === this.#compilesSeen) return;
    this.#compilesSeen = compiles;
    this.#progressAtMs = performance.now();
  }

  /** Sets the timer that gives the device up, if none runs. It looks when it fires, so calls need not touch it. */
  #watch(leftMs: number = this.#progressAtMs + this.#callTimeoutMs - performance.now()): void {
    if (this.#watchdog !== undefined || this.#callTimeoutMs > MAX_TIMER_MS) return;
    this.#watchdog = setTimeout(
      () => {
        this.#watchdog = undefined;
        // The caller's loop may have been busy for longer than the device was.
        this.#settleCompleted();
        if (!this.#isAwaited) return;
        this.#noteCompiles();
        const quietMs = performance.now() - this.#progressAtMs;
        if (quietMs < this.#callTimeoutMs) {
          this.#watch();
          return;
        }
        const isCompiling = (this.#compilesSeen & 1) === 1;
        if (isCompiling && quietMs < this.#compileTimeoutMs) {
          // Not longer: it may have ended long before.
          this.#watch(this.#callTimeoutMs);
          return;
        }
        const limitMs = isCompiling ? this.#compileTimeoutMs : this.#callTimeoutMs;
        const message = `${this.name} ended no call for ${limitMs} ms and was given up`;
        this.#lose(new AcceleratorError("device_wedged", message));
      },
      Math.max(1, Math.ceil(leftMs)),
    );
    this.#watchdog.unref();
  }

  /** Rejects every call in flight, and every later one, with `error`. */
  #lose(error: AcceleratorError): void {
    if (this.#state.status === "lost") return;
    // What the thread ended before it was lost, it ended.
    this.#settleCompleted();
    this.#state = { status: "lost", error };
    clearTimeout(this.#watchdog);
    for (const [slot, call] of this.#pending.entries()) {
      this.#pending[slot] = undefined;
      call?.stopListening?.();
      call?.reject(error);
    }
    for (const { reject } of this.#compiling.splice(0)) reject(error);
    this.#handled = this.#submitted;
    this.#ring.abandon();
    this.#lost.resolve(error);
    void this.#discardThread();
  }

  #onExit(exitCode: number, failure: unknown): void {
    this.#settleCompleted();
    this.#letters.close();
    this.#ended.resolve();
    if (this.#state.status === "closing" && exitCode === 0 && this.#inFlight === 0) return;
    const reason = failure instanceof Error ? `: ${failure.message}` : "";
    const message = `the thread of ${this.name} ended with code ${exitCode}${reason}`;
    this.#lose(new AcceleratorError("device_lost", message, { cause: failure }));
  }

  async #discardThread(): Promise<void> {
    this.#letters.close();
    await endThread(this.#worker);
    this.#ended.resolve();
  }
}
