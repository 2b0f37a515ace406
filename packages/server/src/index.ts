export { runServeCommand } from "./serve-command.ts";
export type { DrainReport, RunningServer } from "./server.ts";
export { startServer } from "./server.ts";
export type { Phase } from "./health-state.ts";
export type { ServerErrorCode, ServerErrorOptions } from "./server-error.ts";
export { ServerError } from "./server-error.ts";
export type {
  BatchingPolicy,
  DeviceKind,
  DeviceName,
  OpenDeviceContext,
  ServerOptions,
  TransportKind,
} from "./server-options.ts";
export { BATCHING_POLICIES, DEVICE_KINDS, DEVICE_NAMES, isDeviceName, TRANSPORTS } from "./server-options.ts";
export type { ServerLimits } from "./model-metadata.ts";
export type { ServerStats } from "./server-counters.ts";
export type { ServeCommandLine, ServeCommandOptions } from "./serve-command-line.ts";
export { serveCommandLine } from "./serve-command-line.ts";
export type { DeviceAvailability } from "./device-availability.ts";
export { deviceAvailability, platformDevice } from "./device-availability.ts";
