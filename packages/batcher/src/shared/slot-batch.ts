import type { BatcherError } from "../batcher-error.ts";
import type { FlushReason } from "../flush-policy.ts";
import type { RingSchema, SlotMemory, SlotViews } from "./ring-memory.ts";

/** A batch of the ring, about to run. The object is used again for the slot's next batch. */
export interface RingBatch<Schema extends RingSchema> extends SlotViews<Schema> {
  readonly slot: number;
  /** Rows that hold items: the first `size`. */
  readonly size: number;
  /** Requests that these are of. */
  readonly items: number;
  /** The size to pad to; rows from `size` on hold anything. */
  readonly paddedSize: number;
  readonly flushReason: FlushReason;
  /** Aborted on `runTimeoutMs`, when nobody waits for the results any more. */
  readonly signal: AbortSignal;
}

/** The consumer's record of the batch that a slot has. */
export class SlotBatch<Schema extends RingSchema> implements RingBatch<Schema> {
  readonly inputs: SlotViews<Schema>["inputs"];
  readonly outputs: SlotViews<Schema>["outputs"];
  readonly slot: number;
  /** Which of the ring's memories it is in. */
  readonly memory: number;
  size = 0;
  items = 0;
  paddedSize = 0;
  flushReason: FlushReason = "idle";
  sequence = 0;
  /** Rows of the protocol. */
  reserved = 0;
  /** Counts the batches that are run. */
  id = 0;
  startedMs = 0;
  /** Its results are published, as it took too long, while its run goes on. */
  isGivenUp = false;
  /** With `isGivenUp`: there was no other memory for the slot, which waits for the end of the run. */
  holdsSlot = false;
  /** Why it fails without being run: the policy could not decide of it. */
  fault: BatcherError | undefined;
  readonly #arrivals: Float64Array;
  #controller: AbortController | undefined;

  constructor({ views, arrivals }: SlotMemory<Schema>, slot: number, memory: number) {
    this.inputs = views.inputs;
    this.outputs = views.outputs;
    this.#arrivals = arrivals;
    this.slot = slot;
    this.memory = memory;
  }

  /** When its first item came, milliseconds since the epoch. */
  get firstArrivalMs(): number {
    return this.#arrivals[0] as number;
  }

  /** Made when it is first asked for. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller ??= new AbortController();
    this.#controller.abort(reason);
  }

  /** Another batch begins here. */
  begin(sequence: number, reserved: number, flushReason: FlushReason): void {
    this.sequence = sequence;
    this.reserved = reserved;
    this.flushReason = flushReason;
    this.isGivenUp = false;
    this.fault = undefined;
    this.#controller = undefined;
  }
}
