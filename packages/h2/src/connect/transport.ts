import type { Transport } from "@connectrpc/connect";
import {
  validateReadWriteMaxBytes,
  type CommonTransportOptions,
  type UniversalClientFn,
} from "@connectrpc/connect/protocol";
import { createTransport as createConnectProtocol } from "@connectrpc/connect/protocol-connect";
import { createTransport as createGrpcProtocol } from "@connectrpc/connect/protocol-grpc";
import { createTransport as createGrpcWebProtocol } from "@connectrpc/connect/protocol-grpc-web";
import { withoutUndefined } from "../without-undefined.ts";
import { ClientChannel, type ClientChannelOptions } from "./client-channel.ts";
import { defaultCompressions } from "./compression.ts";
import { createHttpClient, createUnaryHttpClient } from "./http-client.ts";

export interface Http2TransportOptions
  extends Partial<Omit<CommonTransportOptions, "httpClient" | "baseUrl">>, Omit<ClientChannelOptions, "host" | "port"> {
  readonly protocol: "grpc" | "grpc-web" | "connect";
  /** `http://` (prior knowledge of HTTP/2) or `https://` (ALPN); a path in it precedes those of the methods. */
  readonly baseUrl: string;
}

/** A transport for Connect's clients. `close` ends its connection, and what is open on it. */
export interface Http2Transport extends Transport {
  close(): void;
}

const protocols = { grpc: createGrpcProtocol, "grpc-web": createGrpcWebProtocol, connect: createConnectProtocol };
const ports: Record<string, number> = { "http:": 80, "https:": 443 };

/**
 * Connect's clients over this package: one connection, opened at the first call, and anew after the server has closed it. A
 * unary call that the server says it has not looked at is sent once more, over another connection.
 * Answers compressed with gzip or Brotli are accepted unless `acceptCompression` says otherwise. Throws a TypeError on a
 * `baseUrl` that is none, or neither http nor https.
 */
export function createTransport(options: Http2TransportOptions): Http2Transport {
  const { protocol, baseUrl, tls, limits, keepalive, nowMs, onHandlerError, ...common } = options;
  const url = new URL(baseUrl);
  const port = ports[url.protocol];
  if (port === undefined) throw new TypeError(`baseUrl: expected http or https, got ${JSON.stringify(baseUrl)}`);
  const channel = new ClientChannel({
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? port : Number(url.port),
    ...(url.protocol === "https:" ? { tls: tls ?? {} } : {}),
    ...(limits === undefined ? {} : { limits }),
    ...(keepalive === undefined ? {} : { keepalive }),
    ...(nowMs === undefined ? {} : { nowMs }),
    ...(onHandlerError === undefined ? {} : { onHandlerError }),
  });
  const transportOver = (httpClient: UniversalClientFn): Transport =>
    protocols[protocol]({
      useBinaryFormat: true,
      interceptors: [],
      acceptCompression: [...defaultCompressions],
      sendCompression: null,
      ...withoutUndefined(common),
      ...validateReadWriteMaxBytes(common.readMaxBytes, common.writeMaxBytes, common.compressMinBytes),
      baseUrl,
      httpClient,
    });
  const unary = transportOver(createUnaryHttpClient(channel));
  const streaming = transportOver(createHttpClient(channel));
  return {
    unary: unary.unary.bind(unary),
    stream: streaming.stream.bind(streaming),
    close: () => channel.close(),
  };
}
