import type { Histogram } from "node:perf_hooks";
import type { EmbeddingStoreHandle } from "@dlrm/embedding";
import type { Phase } from "./health-state.ts";
import type { RingModelInfo } from "./ring-model.ts";
import type { TransportKind } from "./server-options.ts";
import type { TransportLimits } from "./transport.ts";

/** What a frontend's thread is started with. */
export interface FrontendThreadData {
  readonly host: string;
  /** 0 only for the first one, which finds out the port for the others. */
  readonly port: number;
  /** False acts as a system where two sockets cannot listen on one port. */
  readonly reusePort: boolean;
  readonly transport: TransportKind;
  readonly transportLimits: TransportLimits;
  readonly timesStages: boolean;
  readonly cells: SharedArrayBuffer;
  readonly phase: Phase;
  readonly reason: string | undefined;
}

/** From the server to a frontend's thread. */
export type ToFrontend =
  | { readonly type: "phase"; readonly phase: Phase; readonly reason: string | undefined }
  | {
      readonly type: "model";
      readonly info: RingModelInfo;
      readonly store: EmbeddingStoreHandle;
      readonly outOfVocabulary: Float64Array;
    }
  /** Answer what is in, and end; the health says draining already. */
  | { readonly type: "drain" };

/** From a frontend's thread to the server. */
export type FromFrontend =
  | { readonly type: "listening"; readonly port: number; readonly eventLoopDelay: Histogram | undefined }
  | { readonly type: "listen-failed"; readonly code: string | undefined; readonly message: string }
  | { readonly type: "ready"; readonly producerId: number }
  /** Draining: everything that came is in the ring. */
  | { readonly type: "placed" }
  /** Everything is answered, every connection has ended, and the thread ends. */
  | { readonly type: "drained" }
  | { readonly type: "log"; readonly fields: Readonly<Record<string, unknown>>; readonly message: string };
