import { performance } from "node:perf_hooks";
import { receiveMessageOnPort, type MessagePort } from "node:worker_threads";
import type { Backend } from "./backend.ts";
import { TensorTable } from "./buffer-table.ts";
import { CALL_DONE, CALL_FAILED, type CallRing } from "./call-ring.ts";
import { AcceleratorError, toErrorRecord } from "./errors.ts";
import type { CompiledMessage, CompileLetter, LetterToCaller, LetterToThread } from "./thread-protocol.ts";
import { SPIN_MS, spinsAfter } from "./short-calls.ts";
import { warmUp } from "./warm-up.ts";

/** Part of a bucket's last time after which its call may well be done: until then a bell is waited for, afterwards its end. */
const SURELY_RUNNING = 0.75;

/** A call that was taken from the ring and is not completed yet. */
interface TakenCall {
  readonly slot: number;
  readonly bucketIndex: number;
  readonly beganMs: number;
  /**
   * - `running`: begun on the device and not ended.
   * - `done`, `failed`: ended; completed as soon as those before are.
   * - `cancelled`: never begun.
   */
  state: "running" | "done" | "failed" | "cancelled";
  endedMs: number;
  error?: unknown;
}

/**
 * Serves the calls of a ring in order until the caller wants to close and none is left. With a pipeline, the next call is begun
 * while one runs: its inputs are then on the device when that is free.
 */
export async function serveCalls(
  backend: Backend<unknown>,
  ring: CallRing,
  buckets: readonly number[],
  letters: MessagePort,
  onCompiled: (message: CompiledMessage) => void = () => {},
): Promise<void> {
  const server = new CallServer(backend, ring, buckets, letters, onCompiled);
  await server.serve();
}

class CallServer {
  readonly #backend: Backend<unknown>;
  readonly #ring: CallRing;
  readonly #buckets: number[];
  readonly #letters: MessagePort;
  readonly #onCompiled: (message: CompiledMessage) => void;
  readonly #table: TensorTable<unknown>;
  readonly #inputs: unknown[];
  readonly #outputs: unknown[];
  readonly #depth: number;
  /** From the oldest. Only the first may be anything but `running`, between two turns of the loop. */
  readonly #taken: TakenCall[] = [];
  /** How long each bucket's last call took, by its index, milliseconds. */
  readonly #lastMs: number[];
  #lettersRead = 0;
  #next = 0;
  /** When the device was done with a call last: a call that waited for it was not running. */
  #freeAtMs = 0;
  /** How long the last call took: after a short one, the next is looked for before the thread sleeps. */
  #lastCallMs = Number.POSITIVE_INFINITY;

  constructor(
    backend: Backend<unknown>,
    ring: CallRing,
    buckets: readonly number[],
    letters: MessagePort,
    onCompiled: (message: CompiledMessage) => void,
  ) {
    this.#backend = backend;
    this.#ring = ring;
    this.#buckets = [...buckets];
    this.#letters = letters;
    this.#onCompiled = onCompiled;
    this.#table = new TensorTable(backend, this.#buckets);
    this.#inputs = backend.inputs.map((): unknown => undefined);
    this.#outputs = backend.outputs.map((): unknown => undefined);
    this.#depth = backend.pipeline?.depth ?? 1;
    this.#lastMs = buckets.map(() => 0);
  }

  async serve(): Promise<void> {
    const ring = this.#ring;
    for (;;) {
      this.#completeEnded();
      const bell = ring.bell;
      // Before the letters: a call seen here then has its buffers among the letters read below.
      const submitted = ring.submitted;
      const compile = this.#readLetters();
      if (compile !== undefined) {
        // There may be letters behind it.
        await this.#compile(compile);
        continue;
      }
      if (submitted !== this.#next && this.#taken.length < this.#depth) {
        const call = this.#take();
        if (call.state === "running") await this.#begin(call);
      } else if (this.#taken.length > 0) {
        if (!this.#waitForMore(bell)) this.#end(this.#taken[0]!);
      } else if (ring.closing) {
        // A call may have come after `submitted` was read; none comes after the wish to close.
        if (ring.submitted === this.#next) return;
      } else {
        if (!spinsAfter(this.#lastCallMs) || !ring.spinForBell(bell, SPIN_MS)) ring.waitForBell(bell);
      }
    }
  }

  /** Reads all letters, or those up to one that takes its time. */
  #readLetters(): CompileLetter | undefined {
    const announced = this.#ring.letters;
    for (; this.#lettersRead !== announced; this.#lettersRead = (this.#lettersRead + 1) | 0) {
      const letter: LetterToThread | undefined = receiveMessageOnPort(this.#letters)?.message;
      if (letter?.type === "buffer") this.#table.add(letter.id, letter.buffer);
      else if (letter?.type === "forget") this.#table.forget(letter.id);
      else if (letter?.type === "compile") {
        this.#lettersRead = (this.#lettersRead + 1) | 0;
        return letter;
      }
    }
    return undefined;
  }

  async #compile({ bucket, program }: CompileLetter): Promise<void> {
    let failure: AcceleratorError | undefined;
    this.#ring.announceCompile();
    try {
      this.#backend.addBucket(bucket, program);
      await warmUp(this.#backend, { buckets: [bucket], budgetMs: 0, onWarmed: () => {} });
    } catch (error) {
      failure = AcceleratorError.from(error, "open_failed", `bucket ${bucket} can't be added`);
    }
    this.#ring.announceCompile();
    if (failure !== undefined) {
      this.#onCompiled({ type: "compiled", bucket, error: toErrorRecord(failure) });
      return;
    }
    this.#buckets.push(bucket);
    this.#lastMs.push(0);
    this.#onCompiled({ type: "compiled", bucket });
  }

  #take(): TakenCall {
    const slot = this.#ring.slotOf(this.#next);
    this.#next = (this.#next + 1) | 0;
    const state = this.#ring.begin(slot) ? "running" : "cancelled";
    const bucketIndex = this.#ring.bucketIndexOf(slot);
    const call: TakenCall = { slot, bucketIndex, beganMs: performance.now(), state, endedMs: 0 };
    this.#taken.push(call);
    return call;
  }

  async #begin(call: TakenCall): Promise<void> {
    const { slot, bucketIndex } = call;
    const [inputs, outputs] = [this.#inputs, this.#outputs];
    try {
      for (let i = 0; i < inputs.length; i++) inputs[i] = this.#tensorOf(slot, i, bucketIndex);
      for (let i = 0; i < outputs.length; i++) outputs[i] = this.#tensorOf(slot, inputs.length + i, bucketIndex);
      const bucket = this.#buckets[bucketIndex]!;
      if (this.#backend.pipeline) {
        this.#backend.pipeline.begin(bucket, inputs, outputs);
        return;
      }
      const running = this.#backend.run(bucket, inputs, outputs);
      if (running) await running;
      call.state = "done";
    } catch (error) {
      call.state = "failed";
      call.error = error;
    }
    call.endedMs = performance.now();
  }

  #tensorOf(slot: number, tensor: number, bucketIndex: number): unknown {
    return this.#table.tensor(
      tensor,
      this.#ring.bufferIdOf(slot, tensor),
      this.#ring.offsetOf(slot, tensor),
      bucketIndex,
    );
  }

  /** Whether something may have come that can be begun beside the oldest call, which surely runs still. */
  #waitForMore(bell: number): boolean {
    if (this.#taken.length >= this.#depth || this.#ring.closing) return false;
    const { bucketIndex, beganMs } = this.#taken[0]!;
    const startedMs = Math.max(beganMs, this.#freeAtMs);
    const leftMs = startedMs + SURELY_RUNNING * this.#lastMs[bucketIndex]! - performance.now();
    if (leftMs <= 0) return false;
    this.#ring.waitForBell(bell, leftMs);
    return this.#ring.bell !== bell;
  }

  #end(call: TakenCall): void {
    try {
      this.#backend.pipeline!.end(this.#buckets[call.bucketIndex]!);
      call.state = "done";
    } catch (error) {
      call.state = "failed";
      call.error = error;
    }
    call.endedMs = performance.now();
  }

  #completeEnded(): void {
    for (let call = this.#taken[0]; call !== undefined && call.state !== "running"; call = this.#taken[0]) {
      this.#taken.shift();
      this.#complete(call);
    }
  }

  #complete({ slot, bucketIndex, beganMs, endedMs, state, error }: TakenCall): void {
    if (state !== "cancelled") {
      const busyMs = endedMs - Math.max(beganMs, this.#freeAtMs);
      this.#freeAtMs = endedMs;
      this.#lastMs[bucketIndex] = busyMs;
      this.#lastCallMs = busyMs;
      if (state === "failed") {
        const failure = AcceleratorError.from(error, "run_failed", `${this.#backend.name} failed`);
        const letter: LetterToCaller = { type: "failure", error: toErrorRecord(failure) };
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
        this.#letters.postMessage(letter);
      }
      this.#ring.finish(slot, state === "failed" ? CALL_FAILED : CALL_DONE, Math.max(0, busyMs) * 1000);
    }
    this.#ring.complete();
  }
}
