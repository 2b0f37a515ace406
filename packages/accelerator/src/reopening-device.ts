import { setTimeout as sleep } from "node:timers/promises";
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
import { AcceleratorError } from "./errors.ts";
import { addStats } from "./stats-counter.ts";

export interface ReopenOptions {
  /** Failed attempts in a row after which the device stays lost. Default: no limit. */
  readonly maxAttempts?: number;
  /** The wait before the second attempt, in milliseconds; doubled for each further one, up to 30,000. Default 1,000. */
  readonly delayMs?: number;
  /** Called when the device is lost: calls reject from now on. */
  readonly onLost?: (error: AcceleratorError) => void;
  /** Called after each attempt that failed. */
  readonly onAttemptFailed?: (error: AcceleratorError, attempt: number) => void;
  /** Called when calls are taken again. */
  readonly onReopened?: () => void;
}

const MAX_DELAY_MS = 30_000;

/**
 * - `open`: calls go to `device`.
 * - `reopening`: calls reject with `device_lost`; one attempt follows the other.
 * - `lost`: as many attempts failed as are allowed.
 */
type State =
  | { readonly status: "open"; readonly device: Device }
  | { readonly status: "reopening" | "lost" | "closed"; readonly error: AcceleratorError };

/** A device that is opened again whenever it is lost. Calls in flight at that moment are not repeated: they reject. */
export class ReopeningDevice implements Device {
  readonly kind: Device["kind"];
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly precision: PrecisionReport;
  readonly memory: DeviceMemory;
  readonly maxInFlight: number;
  /** What was compiled since, for the devices to come. */
  readonly #added: { readonly program: string | Uint8Array | undefined; readonly bucket: number }[] = [];
  #buckets: readonly number[];
  readonly #name: string;
  readonly #open: (signal: AbortSignal) => Promise<Device>;
  readonly #options: ReopenOptions;
  readonly #closing = new AbortController();
  readonly #lost: PromiseWithResolvers<AcceleratorError> = Promise.withResolvers<AcceleratorError>();
  #state: State;
  #warmUp: WarmUpReport;
  /** Of the devices before the one that is open. */
  #statsBefore: DeviceStats | undefined;
  /** Settles when no attempt is going on. */
  #reopening: Promise<void> = Promise.resolve();

  constructor(device: Device, open: (signal: AbortSignal) => Promise<Device>, options: ReopenOptions) {
    this.kind = device.kind;
    this.platform = device.platform;
    this.#buckets = device.buckets;
    this.inputs = device.inputs;
    this.outputs = device.outputs;
    this.precision = device.precision;
    this.memory = device.memory;
    this.maxInFlight = device.maxInFlight;
    this.#name = device.name;
    this.#open = open;
    this.#options = options;
    this.#warmUp = device.warmUp;
    this.#state = { status: "open", device };
    void this.#reopenWhenLost(device);
  }

  get buckets(): readonly number[] {
    return this.#buckets;
  }

  get name(): string {
    return this.#name;
  }

  get warmUp(): WarmUpReport {
    return this.#warmUp;
  }

  get lost(): Promise<AcceleratorError> {
    return this.#lost.promise;
  }

  get stats(): DeviceStats {
    if (this.#state.status !== "open") return this.#statsBefore!;
    const { stats } = this.#state.device;
    return this.#statsBefore === undefined ? stats : addStats(this.#statsBefore, stats);
  }

  async compile(program: string | Uint8Array | undefined, bucket: number): Promise<void> {
    if (this.#state.status !== "open") throw this.#state.error;
    const { device } = this.#state;
    await device.compile(program, bucket);
    this.#added.push({ program, bucket });
    this.#buckets = device.buckets;
  }

  execute(bucket: number, inputs: NamedTensors, outputs: NamedTensors, options?: ExecuteOptions): Promise<void> {
    if (this.#state.status === "open") return this.#state.device.execute(bucket, inputs, outputs, options);
    return Promise.reject(this.#state.error);
  }

  settleEnded(): void {
    if (this.#state.status === "open") this.#state.device.settleEnded();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#reopening;
    if (this.#state.status !== "open") {
      this.#state = { status: "closed", error: new AcceleratorError("closed", `${this.#name} is closed`) };
      return;
    }
    // The closed device goes on answering: with what it did, and that it is closed.
    await this.#state.device.close();
  }

  async #reopenWhenLost(device: Device): Promise<void> {
    const error = await device.lost;
    if (this.#closing.signal.aborted) return;
    this.#statsBefore = this.#statsBefore === undefined ? device.stats : addStats(this.#statsBefore, device.stats);
    const message = `${this.#name} was lost and is being opened again; try again later`;
    this.#state = { status: "reopening", error: new AcceleratorError("device_lost", message, { cause: error }) };
    this.#tell(() => this.#options.onLost?.(error));
    this.#reopening = this.#attemptUntilOpen();
  }

  async #attemptUntilOpen(): Promise<void> {
    const { maxAttempts = Number.POSITIVE_INFINITY, delayMs = 1000, onAttemptFailed, onReopened } = this.#options;
    const { signal } = this.#closing;
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        if (attempt > 1) await sleep(Math.min(MAX_DELAY_MS, delayMs * 2 ** (attempt - 2)), undefined, { signal });
        const device = await this.#open(signal);
        try {
          await this.#addBuckets(device);
        } catch (error) {
          await device.close();
          throw error;
        }
        this.#warmUp = device.warmUp;
        this.#state = { status: "open", device };
        this.#tell(() => onReopened?.());
        void this.#reopenWhenLost(device);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const failure = AcceleratorError.from(error, "open_failed", "the device can't be opened again");
        this.#tell(() => onAttemptFailed?.(failure, attempt));
        if (attempt >= maxAttempts) {
          this.#giveUp(failure, attempt);
          return;
        }
      }
    }
  }

  async #addBuckets(device: Device): Promise<void> {
    for (const { program, bucket } of this.#added) {
      this.#closing.signal.throwIfAborted();
      await device.compile(program, bucket);
    }
  }

  #giveUp(failure: AcceleratorError, attempts: number): void {
    const message = `${this.#name} was lost, and ${attempts} attempts to open it again failed, the last because ${failure.message}`;
    const error = new AcceleratorError("device_lost", message, { cause: failure });
    this.#state = { status: "lost", error };
    this.#lost.resolve(error);
  }

  /** What a callback throws is for the process to catch, and no failure of the device. */
  #tell(callback: () => void): void {
    queueMicrotask(callback);
  }
}
