/**
 * A client for connectconformance: `client.mts h2|node DESCRIPTORS`. It reads the calls that it is to make from stdin, and
 * writes what became of each to stdout, in the order in which they end. `node` calls over node:http2, to compare.
 */
import { readFileSync } from "node:fs";
import { create, fromBinary, toBinary, type DescService } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { compressionBrotli, compressionGzip, createTransport } from "@dlrm/h2/connect";
import { ConformanceCall, type ClientCompatRequest } from "./conformance-call.mts";
import { messageOf, readDescriptors } from "./conformance-service.mts";

const [via, descriptors] = process.argv.slice(2);
if ((via !== "h2" && via !== "node") || descriptors === undefined) {
  console.error("usage: client.mts h2|node DESCRIPTORS");
  process.exit(2);
}
const registry = readDescriptors(readFileSync(descriptors));
const request = messageOf(registry, "ClientCompatRequest");
const response = messageOf(registry, "ClientCompatResponse");
const service = registry.getService("connectrpc.conformance.v1.ConformanceService") as DescService;

/** By the suite's numbers. */
const protocols = { 1: "connect", 2: "grpc", 3: "grpc-web" } as const;
const compressions: Record<number, typeof compressionGzip> = { 2: compressionGzip, 3: compressionBrotli };
const CODEC_PROTO = 1;

const ofNode = { connect: createConnectTransport, grpc: createGrpcTransport, "grpc-web": createGrpcWebTransport };

/** A transport of its own for each call, and what closes it. */
function transportOf(call: ClientCompatRequest): { readonly transport: Transport; close(): void } {
  const isSecure = call.serverTlsCert.length > 0;
  const { clientTlsCreds: creds } = call;
  const protocol = protocols[call.protocol];
  const baseUrl = `${isSecure ? "https" : "http"}://${call.host}:${call.port}`;
  const tls = {
    ca: Buffer.from(call.serverTlsCert),
    ...(creds === undefined ? {} : { cert: Buffer.from(creds.cert), key: Buffer.from(creds.key) }),
  };
  const sendCompression = compressions[call.compression];
  const common = {
    baseUrl,
    useBinaryFormat: call.codec === CODEC_PROTO,
    jsonOptions: { registry },
    ...(sendCompression === undefined ? {} : { sendCompression }),
    // Most of the suite's messages are short, and are to be compressed all the same.
    compressMinBytes: 0,
    useHttpGet: call.useGetHttpMethod,
    ...(call.messageReceiveLimit > 0 ? { readMaxBytes: call.messageReceiveLimit } : {}),
  };
  if (via === "h2") {
    const transport = createTransport({ protocol, ...common, ...(isSecure ? { tls } : {}) });
    return { transport, close: () => transport.close() };
  }
  const sessionManager = new Http2SessionManager(baseUrl, undefined, isSecure ? tls : {});
  return {
    transport: ofNode[protocol]({ ...common, httpVersion: "2", sessionManager }),
    close: () => sessionManager.abort(),
  };
}

async function perform(call: ClientCompatRequest): Promise<void> {
  let result: object;
  let opened: ReturnType<typeof transportOf> | undefined;
  try {
    opened = transportOf(call);
    const value = await new ConformanceCall(registry, service, opened.transport, call).run();
    result = { case: "response", value };
  } catch (error) {
    result = { case: "error", value: { message: String((error as Error).stack) } };
  } finally {
    opened?.close();
  }
  const bytes = toBinary(response, create(response, { testName: call.testName, result }));
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32BE(bytes.length);
  process.stdout.write(Buffer.concat([prefix, bytes]));
}

/** The suite hands over thousands of calls at once: their deadlines must not pass while they wait for each other. */
const MAX_AT_ONCE = 8;
const waiting: ClientCompatRequest[] = [];
let atOnce = 0;

async function work(): Promise<void> {
  atOnce += 1;
  for (let call = waiting.shift(); call !== undefined; call = waiting.shift()) await perform(call);
  atOnce -= 1;
}

let unread = Buffer.alloc(0);
for await (const piece of process.stdin as AsyncIterable<Buffer>) {
  unread = Buffer.concat([unread, piece]);
  while (unread.length >= 4 && unread.length >= 4 + unread.readUInt32BE(0)) {
    const end = 4 + unread.readUInt32BE(0);
    waiting.push(fromBinary(request, unread.subarray(4, end)) as unknown as ClientCompatRequest);
    if (atOnce < MAX_AT_ONCE) void work();
    unread = unread.subarray(end);
  }
}
