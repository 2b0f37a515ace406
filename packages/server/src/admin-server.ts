import http from "node:http";
import type net from "node:net";
import type { Histogram, ELDHistogram } from "node:perf_hooks";
import { watchEventLoop } from "./event-loop-delay.ts";
import { METRICS_CONTENT_TYPE, metricsText, type ServerSnapshot } from "./metrics-text.ts";

export interface AdminSnapshot extends Omit<ServerSnapshot, "eventLoopDelays" | "memory" | "cpu"> {
  /** Of other threads than the one that asks. */
  readonly eventLoopDelays: ReadonlyMap<string, Histogram>;
}

/** `/metrics`, `/healthz` and `/readyz` on a port of their own, HTTP/1.1. */
export class AdminServer {
  readonly #server: http.Server;
  readonly #snapshot: () => AdminSnapshot;
  /** Set while it listens. */
  #eventLoopDelay: ELDHistogram | undefined;

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
    this.#eventLoopDelay = watchEventLoop();
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Ends every connection at once. Idempotent. */
  async close(): Promise<void> {
    this.#eventLoopDelay?.disable();
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
    const own = this.#eventLoopDelay;
    const eventLoopDelays = new Map<string, Histogram>(own === undefined ? [] : [["main", own]]);
    for (const [thread, delay] of snapshot.eventLoopDelays) eventLoopDelays.set(thread, delay);
    const text = metricsText({ ...snapshot, eventLoopDelays, memory: process.memoryUsage(), cpu: process.cpuUsage() });
    for (const delay of eventLoopDelays.values()) delay.reset();
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
