import type { FilledLoadOptions } from "./load-options.ts";
import type { LoadErrorCode } from "./load-error.ts";
import type { ShareProgress, ShareReport } from "./load-share.ts";
import type { Share } from "./share-plan.ts";

/** From the parent to a load process, over Node's IPC channel. A load process ends when the channel is closed. */
export type ToProcess =
  | { readonly kind: "prepare"; readonly options: FilledLoadOptions; readonly share: Share }
  | { readonly kind: "run"; readonly startMicros: number; readonly progress: boolean };

/** From a load process to the parent. */
export type FromProcess =
  | { readonly kind: "up" }
  | { readonly kind: "ready"; readonly poolBytes: number; readonly poolRequests: number }
  | { readonly kind: "progress"; readonly progress: ShareProgress }
  | { readonly kind: "done"; readonly report: ShareReport }
  | { readonly kind: "failed"; readonly code: LoadErrorCode; readonly message: string };
