import { Worker } from "node:worker_threads";
import type { DeviceSettings, FromDevice, SlotBuffers, ToDevice } from "./device-messages.ts";

/** Buffers of a call that its caller may use until it is released. */
export interface Slot {
  readonly slot: number;
  readonly buffers: SlotBuffers;
}

export interface DeviceOptions {
  readonly settings: DeviceSettings;
  /** Numbers of one example. */
  readonly denseFeatures: number;
  readonly pooledWidth: number;
  /** Sizes that calls are rounded up to, ascending. */
  readonly buckets: readonly number[];
}

/** Calls that are prepared or run at one time: enough that the device never waits, few enough to stay in the cache. */
const MAX_SLOTS_IN_USE = 4;

const entry = new URL(import.meta.url.endsWith(".ts") ? "./device-thread.ts" : "./device-thread.js", import.meta.url);

/** The device, which runs in a thread of its own, seen from the thread that serves requests. */
export class Device {
  /** Rejects if the thread ends before `close`. */
  readonly failed: Promise<never>;
  readonly #worker: Worker;
  readonly #options: DeviceOptions;
  readonly #free: Map<number, Slot[]> = new Map();
  readonly #running: Map<number, { resolve: () => void; reject: (error: Error) => void }> = new Map();
  readonly #waiting: (() => void)[] = [];
  #slots = 0;
  #inUse = 0;
  #closed = false;

  private constructor(worker: Worker, options: DeviceOptions) {
    this.#worker = worker;
    this.#options = options;
    this.failed = new Promise((_, reject) => {
      const fail = (error: Error): void => {
        if (this.#closed) return;
        for (const call of this.#running.values()) call.reject(error);
        this.#running.clear();
        reject(error);
      };
      worker.once("error", (error: Error) => fail(error));
      worker.once("exit", (code) => fail(new Error(`the device's thread ended with code ${code}`)));
    });
    this.failed.catch(() => undefined);
    worker.on("message", (message: FromDevice) => this.#take(message));
  }

  /** @param options `buckets` must not be empty. */
  static async open(options: DeviceOptions): Promise<Device> {
    // onnxruntime's own telemetry costs the server threads and files. Set here, as a worker's process.env is a copy.
    process.env["ORT_DISABLE_TELEMETRY"] ??= "1";
    const device = new Device(new Worker(entry, { workerData: options.settings, name: "device" }), options);
    const ready = new Promise<void>((resolve) => {
      device.#worker.once("message", () => resolve());
    });
    await Promise.race([ready, device.failed]);
    return device;
  }

  /** Examples that one call can hold. */
  get maxBatch(): number {
    return this.#options.buckets.at(-1) as number;
  }

  /** Buffers for a call of `batch` examples, once there are some; first come, first served. */
  async take(batch: number): Promise<Slot> {
    if (this.#inUse === MAX_SLOTS_IN_USE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#inUse++;
    const bucket = this.#options.buckets.find((size) => size >= batch) as number;
    return this.#free.get(bucket)?.pop() ?? this.#makeSlot(bucket);
  }

  release(slot: Slot): void {
    const { bucket } = slot.buffers;
    const free = this.#free.get(bucket);
    if (free === undefined) this.#free.set(bucket, [slot]);
    else free.push(slot);
    const next = this.#waiting.shift();
    if (next === undefined) this.#inUse--;
    else next();
  }

  /** Makes the scores of the first `batch` examples of a slot. */
  run({ slot }: Slot, batch: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#running.set(slot, { resolve, reject });
      this.#send({ kind: "run", slot, batch });
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#send({ kind: "close" });
    await this.#worker.terminate();
  }

  #makeSlot(bucket: number): Slot {
    const { denseFeatures, pooledWidth } = this.#options;
    const shared = (length: number) => new Float32Array(new SharedArrayBuffer(length * 4));
    const buffers: SlotBuffers = {
      bucket,
      dense: shared(bucket * denseFeatures),
      pooled: shared(bucket * pooledWidth),
      scores: shared(bucket),
    };
    const slot = { slot: this.#slots++, buffers };
    this.#send({ kind: "slot", ...slot });
    return slot;
  }

  #take(message: FromDevice): void {
    if (message.kind !== "done") return;
    const call = this.#running.get(message.slot);
    this.#running.delete(message.slot);
    if (message.error === undefined) call?.resolve();
    else call?.reject(new Error(message.error));
  }

  #send(message: ToDevice): void {
    this.#worker.postMessage(message);
  }
}
