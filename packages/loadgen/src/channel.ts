import { GrpcStatus } from "./grpc-status.ts";
import { messageOf } from "./load-error.ts";
import type { Connect, RpcConnection, RpcEvents, RpcTarget } from "./rpc-connection.ts";

const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1000;

/** Takes the outcome of calls; `detail` says more where the status isn't OK. */
export interface CallListener {
  onAnswer(token: number, status: number, detail: string, bodyBytes: number): void;
}

/** Runs something once, later; returns how to forget it. */
export type Delay = (run: () => void, delayMs: number) => () => void;

const timeoutDelay: Delay = (run, delayMs) => {
  const timer = setTimeout(run, delayMs);
  return () => clearTimeout(timer);
};

type State =
  | { readonly kind: "ready"; readonly connection: RpcConnection }
  /** A connection is being made; calls wait for its outcome. */
  | { readonly kind: "connecting" }
  /** The last attempt failed; calls wait for the next, which starts after a pause. */
  | { readonly kind: "backoff"; readonly forget: () => void }
  | { readonly kind: "closed" };

/**
 * One connection that is made anew when it is lost. Calls made meanwhile wait for the next attempt and fail with it
 * (UNAVAILABLE), so that callers of a server that is down fail once an attempt and not in a tight loop. No call is ever
 * made twice.
 */
export class Channel {
  readonly #connect: Connect;
  readonly #target: RpcTarget;
  readonly #listener: CallListener;
  readonly #delay: Delay;
  #state: State = { kind: "connecting" };
  #backoffMs = 0;
  #queue: { token: number; frame: Uint8Array }[] = [];
  /** Connections that take no more calls but still have some outstanding. */
  readonly #leaving = new Set<RpcConnection>();
  /** Connections made, the first included. */
  connects = 0;

  constructor(connect: Connect, target: RpcTarget, listener: CallListener, delay: Delay = timeoutDelay) {
    this.#connect = connect;
    this.#target = target;
    this.#listener = listener;
    this.#delay = delay;
  }

  /** Makes the first connection; rejects, and makes no further attempt, where that fails. */
  async open(): Promise<void> {
    this.#use(await this.#attempt());
  }

  call(token: number, frame: Uint8Array): void {
    if (this.#state.kind === "ready") this.#state.connection.call(token, frame);
    else if (this.#state.kind === "closed") this.#listener.onAnswer(token, GrpcStatus.cancelled, "closed", 0);
    else this.#queue.push({ token, frame });
  }

  /** Closes; whatever is outstanding is answered as CANCELLED. */
  close(): void {
    const state = this.#state;
    this.#state = { kind: "closed" };
    if (state.kind === "backoff") state.forget();
    if (state.kind === "ready") state.connection.close();
    for (const connection of this.#leaving) connection.close();
    this.#failQueued(GrpcStatus.cancelled, "closed by the client");
  }

  async #attempt(): Promise<RpcConnection> {
    let connection: RpcConnection | undefined;
    let closing = false;
    const events: RpcEvents = {
      onAnswer: (token, status, detail, bodyBytes) => this.#listener.onAnswer(token, status, detail, bodyBytes),
      onClosing: () => {
        closing = true;
        if (connection === undefined) return;
        this.#leaving.add(connection);
        if (this.#state.kind === "ready" && this.#state.connection === connection) this.#reconnect(0);
      },
      onClosed: () => {
        if (connection !== undefined) this.#leaving.delete(connection);
      },
    };
    connection = await this.#connect(this.#target, events);
    // Between the connection's being ready and this line it may have been lost again.
    if (closing) throw new Error("the server closed the connection at once");
    return connection;
  }

  #use(connection: RpcConnection): void {
    if (this.#state.kind === "closed") {
      connection.close();
      return;
    }
    this.connects++;
    this.#backoffMs = 0;
    this.#state = { kind: "ready", connection };
    const queue = this.#queue;
    this.#queue = [];
    for (const { token, frame } of queue) this.call(token, frame);
  }

  #reconnect(delayMs: number): void {
    const forget = this.#delay(() => {
      this.#state = { kind: "connecting" };
      this.#attempt().then(
        (connection) => this.#use(connection),
        (error: unknown) => {
          if (this.#state.kind === "closed") return;
          this.#backoffMs = Math.min(LONGEST_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, this.#backoffMs * 2));
          this.#reconnect(this.#backoffMs);
          this.#failQueued(GrpcStatus.unavailable, messageOf(error));
        },
      );
    }, delayMs);
    this.#state = { kind: "backoff", forget };
  }

  #failQueued(status: number, detail: string): void {
    const queue = this.#queue;
    // Callers call again from within: those calls belong to the next attempt.
    this.#queue = [];
    for (const { token } of queue) this.#listener.onAnswer(token, status, detail, 0);
  }
}
