export { createConnectHandler } from "./connect-handler.ts";
export type { ConnectHandlerOptions } from "./connect-handler.ts";
