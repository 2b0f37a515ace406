import { performance } from "node:perf_hooks";

/** What became of the call in a slot. Moves forward only, until the slot is taken again. */
export const CALL_QUEUED = 1;
export const CALL_RUNNING = 2;
/** Taken back by the caller before the thread began it. */
export const CALL_CANCELLED = 3;
export const CALL_DONE = 4;
export const CALL_FAILED = 5;

/** Words that different threads write stand 64 bytes apart, so that neither slows the other's cache line. */
const BELL = 0;
const SUBMITTED = 16;
const LETTERS = 17;
const CLOSING = 18;
const COMPLETED = 32;
const COMPILES = 33;
const SLOTS = 48;

/** Words of a slot before its tensors: state and bucket index. A tensor is two: buffer id, and offset in floats. */
const STATE = 0;
const BUCKET_INDEX = 1;
const TENSORS = 2;

/**
 * The calls of one device, in shared memory: integers only, written by one caller and one thread.
 *
 * - `submitted` and `completed` count calls, modulo 2^32; `submitted - completed` is in 0…capacity.
 * - Call number n lives in slot n mod capacity, from submission until the caller has seen it completed.
 * - The thread ends calls in order: if n is completed, so are all before it.
 * - The bell changes whenever there may be something new for the thread: a call, a letter, the wish to close. The
 *   thread reads it, looks for work, and only then sleeps until it is no longer what it read: no ring is missed.
 */
export class CallRing {
  readonly buffer: SharedArrayBuffer;
  readonly tensorCount: number;
  /** A power of two, so that slots stay in step when the counters wrap. */
  readonly capacity: number;
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #busyMicros: Float64Array<SharedArrayBuffer>;
  readonly #slotWords: number;

  /** A new ring for at least `minCapacity` calls of `tensorCount` tensors each. */
  static allocate(minCapacity: number, tensorCount: number): CallRing {
    const capacity = 2 ** Math.ceil(Math.log2(minCapacity));
    const words = SLOTS + capacity * (TENSORS + 2 * tensorCount);
    return new CallRing(new SharedArrayBuffer((words + (words % 2)) * 4 + capacity * 8), tensorCount, capacity);
  }

  /** The ring in `buffer`, which the other thread allocated with the same capacity and tensor count. */
  constructor(buffer: SharedArrayBuffer, tensorCount: number, capacity: number) {
    this.buffer = buffer;
    this.tensorCount = tensorCount;
    this.capacity = capacity;
    this.#slotWords = TENSORS + 2 * tensorCount;
    this.#busyMicros = new Float64Array(buffer, buffer.byteLength - capacity * 8, capacity);
    this.#words = new Int32Array(buffer, 0, SLOTS + capacity * this.#slotWords);
  }

  slotOf(call: number): number {
    return call & (this.capacity - 1);
  }

  // The caller's side.

  get submitted(): number {
    return Atomics.load(this.#words, SUBMITTED);
  }

  setTensor(slot: number, tensor: number, bufferId: number, offset: number): void {
    const at = SLOTS + slot * this.#slotWords + TENSORS + 2 * tensor;
    this.#words[at] = bufferId;
    this.#words[at + 1] = offset;
  }

  /** Hands the next call over; its tensors are set, and its slot is free. The atomic store publishes them. */
  submit(bucketIndex: number): void {
    const call = this.submitted;
    const at = SLOTS + this.slotOf(call) * this.#slotWords;
    this.#words[at + BUCKET_INDEX] = bucketIndex;
    Atomics.store(this.#words, at + STATE, CALL_QUEUED);
    Atomics.store(this.#words, SUBMITTED, (call + 1) | 0);
    this.#ringBell();
  }

  /** Whether the call was still waiting; it then never runs, but still completes in its turn. */
  cancel(slot: number): boolean {
    const at = SLOTS + slot * this.#slotWords + STATE;
    return Atomics.compareExchange(this.#words, at, CALL_QUEUED, CALL_CANCELLED) === CALL_QUEUED;
  }

  /** Says that a message was posted to the thread, which does not listen but looks. */
  announceLetter(): void {
    Atomics.add(this.#words, LETTERS, 1);
    this.#ringBell();
  }

  announceClosing(): void {
    Atomics.store(this.#words, CLOSING, 1);
    this.#ringBell();
  }

  get completed(): number {
    return Atomics.load(this.#words, COMPLETED);
  }

  /** Changes when a compile begins or ends: odd while there is one. */
  get compiles(): number {
    return Atomics.load(this.#words, COMPILES);
  }

  /** Resolves once `completed` is no longer `seen`; `undefined` if that is so already. Blocks nothing. */
  completedChange(seen: number): Promise<unknown> | undefined {
    const wait = Atomics.waitAsync(this.#words, COMPLETED, seen);
    return wait.async ? wait.value : undefined;
  }

  /** Releases a `completedChange` of a ring that nobody serves any more, which would otherwise be kept for ever. */
  abandon(): void {
    Atomics.notify(this.#words, COMPLETED);
  }

  stateOf(slot: number): number {
    return Atomics.load(this.#words, SLOTS + slot * this.#slotWords + STATE);
  }

  busyMicrosOf(slot: number): number {
    return this.#busyMicros[slot]!;
  }

  #ringBell(): void {
    Atomics.add(this.#words, BELL, 1);
    Atomics.notify(this.#words, BELL);
  }

  // The thread's side.

  get bell(): number {
    return Atomics.load(this.#words, BELL);
  }

  /** Looks at the bell without sleeping, for so many milliseconds at most. Whether it is no longer `heard`. */
  spinForBell(heard: number, forMs: number): boolean {
    for (const endsAtMs = performance.now() + forMs; this.bell === heard;) {
      if (performance.now() >= endsAtMs) return false;
    }
    return true;
  }

  /** Blocks the thread until the bell is no longer `heard`, or for `timeoutMs`. */
  waitForBell(heard: number, timeoutMs?: number): void {
    Atomics.wait(this.#words, BELL, heard, timeoutMs);
  }

  get letters(): number {
    return Atomics.load(this.#words, LETTERS);
  }

  get closing(): boolean {
    return Atomics.load(this.#words, CLOSING) !== 0;
  }

  /** Whether the thread may run the call: false if it was cancelled. */
  begin(slot: number): boolean {
    const at = SLOTS + slot * this.#slotWords + STATE;
    return Atomics.compareExchange(this.#words, at, CALL_QUEUED, CALL_RUNNING) === CALL_QUEUED;
  }

  bucketIndexOf(slot: number): number {
    return this.#words[SLOTS + slot * this.#slotWords + BUCKET_INDEX]!;
  }

  bufferIdOf(slot: number, tensor: number): number {
    return this.#words[SLOTS + slot * this.#slotWords + TENSORS + 2 * tensor]!;
  }

  offsetOf(slot: number, tensor: number): number {
    return this.#words[SLOTS + slot * this.#slotWords + TENSORS + 2 * tensor + 1]!;
  }

  /** Says that a compile begins, or that it has ended: calls wait meanwhile. */
  announceCompile(): void {
    Atomics.add(this.#words, COMPILES, 1);
  }

  /** Sets how the running call of `slot` ended. */
  finish(slot: number, state: typeof CALL_DONE | typeof CALL_FAILED, busyMicros: number): void {
    this.#busyMicros[slot] = busyMicros;
    Atomics.store(this.#words, SLOTS + slot * this.#slotWords + STATE, state);
  }

  /** Publishes the next call in order as completed, and wakes the caller. */
  complete(): void {
    Atomics.add(this.#words, COMPLETED, 1);
    Atomics.notify(this.#words, COMPLETED);
  }
}
