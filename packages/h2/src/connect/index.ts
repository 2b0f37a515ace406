export { compressionBrotli, compressionGzip } from "./compression.ts";
export { createConnectHandler } from "./connect-handler.ts";
export type { ConnectHandlerOptions } from "./connect-handler.ts";
export { createTransport } from "./transport.ts";
export type { Http2Transport, Http2TransportOptions } from "./transport.ts";
