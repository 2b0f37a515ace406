import type { Logger } from "pino";
import type { AdminSnapshot } from "./admin-server.ts";
import type { HealthState } from "./health-state.ts";
import type { ModelHost } from "./model-host.ts";
import type { ServerStats } from "./server-counters.ts";
import type { ResolvedOptions } from "./server-options.ts";

export interface ServerSideParts {
  readonly options: ResolvedOptions;
  /** The server's, which the frontends follow. */
  readonly health: HealthState;
  readonly logger: Logger;
  readonly timesStages: boolean;
  /** Nothing can be scored any more. */
  readonly onFatal: (error: Error) => void;
}

/** What it knows of the server's state. */
export type SideSnapshot = Omit<AdminSnapshot, "phase" | "deviceLosses" | "deviceReopenings">;

/** The part of a server that has connections, requests and batches: in its own thread, or in several. */
export interface ServerSide {
  readonly frontends: number;
  readonly inFlightRequests: number;
  readonly stats: ServerStats;
  /** Binds and listens; the port, which with 0 is the system's choice. Rejects with the system's error. */
  listen(host: string, port: number): Promise<number>;
  /** Makes everything ready to score with the model, which stays the caller's to close. */
  serve(model: ModelHost): Promise<void>;
  snapshot(): SideSnapshot;
  /** Once the health says draining: answers what is in, and ends all connections. */
  drain(): Promise<void>;
  /** Ends everything at once; requests that are in fail. */
  close(): Promise<void>;
}
