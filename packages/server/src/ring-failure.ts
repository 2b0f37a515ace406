import type { BatcherError } from "@dlrm/batcher";
import { isDeviceLost } from "./model-host.ts";
import { ServerError } from "./server-error.ts";

/** Begins the message of a batch that failed because the device is lost: of an error a ring carries only that. */
const LOST = "device lost: ";

/** The error of a run, as it goes through the ring. */
export function ringFailure(error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  return new Error(isDeviceLost(error) ? LOST + message : message, { cause: error });
}

/** What a caller is told of an item of the ring that failed. */
export function fromRingError(error: BatcherError): ServerError {
  switch (error.code) {
    case "draining":
    case "closed":
      return new ServerError("unavailable", "the server is draining: try another one", { cause: error });
    case "consumer_gone":
      return new ServerError("unavailable", "the device is lost", { cause: error });
    default: {
      const reason = error.message.replace(/^the run of the batch failed: /u, "");
      return reason.startsWith(LOST)
        ? new ServerError("unavailable", `the device is lost: ${reason.slice(LOST.length)}`, { cause: error })
        : new ServerError("internal", `scoring failed: ${reason}`, { cause: error });
    }
  }
}
