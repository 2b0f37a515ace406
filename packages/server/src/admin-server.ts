import http from "node:http";
import type net from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { METRICS_CONTENT_TYPE, metricsText, type ServerSnapshot } from "./metrics-text.ts";

/** How often the event loop's delay is looked at, milliseconds. */
const EVENT_LOOP_RESOLUTION_MS = 10;

export type AdminSnapshot = Omit<ServerSnapshot, "eventLoopDelay" | "memory" | "cpu">;

/** `/metrics`, `/healthz` and `/readyz` on a port of their own, HTTP/1.1. */
export class AdminServer {
  readonly #server: http.Server;
  readonly #snapshot: () => AdminSnapshot;
  readonly #eventLoopDelay = monitorEventLoopDelay({ resolution: EVENT_LOOP_RESOLUTION_MS });

  constructor(snapshot: () => AdminSnapshot) {
    this.#snapshot = snapshot;
    this.#server = http.createServer((request, response) => {
      const { status, contentType, body } = this.#answer(request);
      response.writeHead(status, { "content-type": contentType }).end(request.method === "HEAD" ? undefined : body);
    });
  }

  /** Binds and listens; the port, which with 0 is the system's choice. */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off("error", reject);
        resolve();
      });
    });
    this.#server.on("error", ignore);
    this.#eventLoopDelay.enable();
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Ends every connection at once. Idempotent. */
  async close(): Promise<void> {
    this.#eventLoopDelay.disable();
    if (!this.#server.listening) return;
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #answer({ method, url = "" }: http.IncomingMessage): Answer {
    if (method !== "GET" && method !== "HEAD") return plain(405, `expected GET, got ${method}`);
    const snapshot = this.#snapshot();
    switch (url.split("?", 1)[0]) {
      case "/metrics":
        return { status: 200, contentType: METRICS_CONTENT_TYPE, body: this.#metrics(snapshot) };
      case "/healthz":
        // The process is there and answers; whether it should get requests is /readyz.
        return plain(200, snapshot.phase);
      case "/readyz":
        return plain(snapshot.phase === "serving" ? 200 : 503, snapshot.phase);
      default:
        return plain(404, "expected /metrics, /healthz or /readyz");
    }
  }

  #metrics(snapshot: AdminSnapshot): string {
    const eventLoopDelay = this.#eventLoopDelay;
    const text = metricsText({ ...snapshot, eventLoopDelay, memory: process.memoryUsage(), cpu: process.cpuUsage() });
    eventLoopDelay.reset();
    return text;
  }
}

interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

function plain(status: number, text: string): Answer {
  return { status, contentType: "text/plain; charset=utf-8", body: `${text}\n` };
}

function ignore(): void {}
