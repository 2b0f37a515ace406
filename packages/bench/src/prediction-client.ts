import { createClient, type Client, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Health, PredictionService, ServingStatus } from "@dlrm/proto";
import type { PredictRequest, PredictResponse } from "@dlrm/proto";
import { messageOf } from "./bench-error.ts";
import { enumName } from "./enum-name.ts";

/** Talks gRPC (h2c) to a server under test; not used for load. */
export class PredictionClient {
  readonly #session: Http2SessionManager;
  readonly #health: Client<typeof Health>;
  readonly #prediction: Client<typeof PredictionService>;

  constructor(host: string, port: number) {
    const baseUrl = `http://${host}:${port}`;
    this.#session = new Http2SessionManager(baseUrl);
    const transport = createGrpcTransport({ baseUrl, sessionManager: this.#session });
    this.#health = createClient(Health, transport);
    this.#prediction = createClient(PredictionService, transport);
  }

  /**
   * Asks until the server says SERVING.
   *
   * @returns the milliseconds it took.
   * @throws the reason of `signal`, or an Error with the last answer after `timeoutMs`.
   */
  async untilServing(timeoutMs: number, signal: AbortSignal): Promise<number> {
    const started = performance.now();
    for (let delayMs = 20; ; delayMs = Math.min(500, delayMs * 1.5)) {
      let answer: string;
      try {
        const { status } = await this.#health.check({ service: "" }, { signal, timeoutMs: 5000 });
        if (status === ServingStatus.SERVING) return performance.now() - started;
        answer = enumName(ServingStatus, status);
      } catch (error) {
        answer = messageOf(error);
      }
      signal.throwIfAborted();
      if (performance.now() - started + delayMs > timeoutMs) {
        throw new Error(`not healthy within ${timeoutMs / 1000} s; its last answer: ${answer}`);
      }
      await pause(delayMs, signal);
    }
  }

  predict(request: PredictRequest, signal: AbortSignal, timeoutMs: number): Promise<PredictResponse> {
    return this.#prediction.predict(request, { signal, timeoutMs });
  }

  /** Ends the connection at once; what is outstanding fails. */
  close(): void {
    this.#session.abort();
  }
}

/** Whether a call that failed did so because the server said so, with a status of gRPC. */
export function isAnswer(error: unknown): boolean {
  return error instanceof ConnectError && error.metadata.has("grpc-status");
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
