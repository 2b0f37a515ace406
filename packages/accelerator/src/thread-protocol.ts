import type { MessagePort } from "node:worker_threads";
import type { InputTransferCounts } from "./backend.ts";
import type { DeviceMemory, OpenProgress, PrecisionReport, TensorSpec, WarmUpReport } from "./device.ts";
import type { ThreadSettings } from "./device-spec.ts";
import type { ErrorRecord } from "./errors.ts";

/** What a device's thread is started with. */
export interface ThreadData {
  readonly settings: ThreadSettings;
  /** Carries letters both ways. Neither side listens on it: both look when the ring says that there is something. */
  readonly letters: MessagePort;
}

/** From the caller to the thread: a buffer that calls will name by its id, or one that none will name again; or a bucket. */
export type LetterToThread =
  | { readonly type: "buffer"; readonly id: number; readonly buffer: SharedArrayBuffer }
  | { readonly type: "forget"; readonly id: number }
  | CompileLetter;

/** A bucket to be added: see `Device.compile`. */
export interface CompileLetter {
  readonly type: "compile";
  readonly bucket: number;
  readonly program: string | Uint8Array | undefined;
}

/** From the thread to the caller: the bucket of the oldest compile letter was added, or why not. */
export interface CompiledMessage {
  readonly type: "compiled";
  readonly bucket: number;
  readonly error?: ErrorRecord;
}

/** From the thread to the caller: why the call that failed next in order did. Posted before the call is completed. */
export interface LetterToCaller {
  readonly type: "failure";
  readonly error: ErrorRecord;
}

/** From the thread to the caller while it opens: any number of `progress`, then one of the others. */
export type OpeningMessage =
  | { readonly type: "progress"; readonly progress: OpenProgress }
  | { readonly type: "failed"; readonly error: ErrorRecord }
  | ({ readonly type: "ready" } & ThreadReady);

export interface ThreadReady {
  readonly name: string;
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly warmUp: WarmUpReport;
  readonly precision: PrecisionReport;
  readonly memory: DeviceMemory;
  readonly inputTransfers: InputTransferCounts | undefined;
  readonly maxInFlight: number;
  readonly ring: { readonly buffer: SharedArrayBuffer; readonly capacity: number };
}
