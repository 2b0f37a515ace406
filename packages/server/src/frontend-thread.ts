import { parentPort, workerData } from "node:worker_threads";
import { attachEmbeddingStore, type EmbeddingStore } from "@dlrm/embedding";
import { type FailureLogger, Frontend } from "./frontend.ts";
import { frontendCells } from "./frontend-cells.ts";
import type { FromFrontend, FrontendThreadData, ToFrontend } from "./frontend-protocol.ts";
import { watchEventLoop } from "./event-loop-delay.ts";
import { HealthState } from "./health-state.ts";
import { RingModel } from "./ring-model.ts";

// The thread of one frontend: listens, says so, gets a model, then answers requests until it is told to drain.

function tell(message: FromFrontend): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
  parentPort?.postMessage(message);
}

/** Logs in the server's thread. An error travels as a plain object, as the logger would write it. */
const logger: FailureLogger = {
  error(fields: unknown, message?: string) {
    tell({ type: "log", fields: cloneable(fields as Readonly<Record<string, unknown>>), message: message ?? "" });
  },
};

function cloneable(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? { type: value.name, message: value.message, stack: value.stack } : String(value),
    ]),
  );
}

const data = workerData as FrontendThreadData;
const health = new HealthState();
health.advance(data.phase, data.reason);
const cells = frontendCells(data.cells);
const frontend = new Frontend({ ...data, cells, health, logger });
/** The server reads it where it is: a histogram that is posted stays one with its original, as long as that is kept. */
const eventLoopDelay = data.timesStages ? watchEventLoop() : undefined;
let model: RingModel | undefined;
let store: EmbeddingStore | undefined;

async function drain(): Promise<void> {
  const { activity, transport } = frontend;
  // The batches wait for others no longer once there can be none.
  await activity.until(() => activity.allScoring && (model?.isPlaced ?? true));
  tell({ type: "placed" });
  await activity.until(() => activity.inFlight === 0);
  // Watchers of the health are let go only now: while there was work they were told NOT_SERVING.
  health.advance("closed");
  await transport.close();
  model?.close();
  store?.close();
  eventLoopDelay?.disable();
  tell({ type: "drained" });
  parentPort?.close();
}

parentPort?.on("message", (message: ToFrontend) => {
  switch (message.type) {
    case "phase":
      health.advance(message.phase, message.reason);
      break;
    case "model": {
      const { info, outOfVocabulary } = message;
      store = attachEmbeddingStore(message.store);
      model = new RingModel({
        info,
        store,
        cells: cells.ring,
        outOfVocabulary,
        stages: frontend.stages,
        onPlaced: () => frontend.activity.changed(),
      });
      frontend.add(model);
      tell({ type: "ready", producerId: model.producerId });
      break;
    }
    case "drain":
      void drain();
  }
});

async function listen(): Promise<number> {
  const { host, port, reusePort } = data;
  if (!reusePort) throw Object.assign(new Error("frontends may not share a port"), { code: "ENOTSUP" });
  return await frontend.transport.listen(host, port, { reusePort });
}

try {
  const port = await listen();
  tell({ type: "listening", port, eventLoopDelay });
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  tell({ type: "listen-failed", code, message });
}
