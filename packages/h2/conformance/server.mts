/**
 * A server for connectconformance: `server.mts h2|node DESCRIPTORS`. It reads what is wanted of it from stdin, and writes where
 * it listens to stdout. `node` serves over node:http2, to compare.
 */
import { readFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import type { AddressInfo, Server } from "node:net";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createServer } from "@dlrm/h2";
import { createConnectHandler } from "@dlrm/h2/connect";
import { conformanceRoutes, messageOf, readDescriptors, type ServerCompatRequest } from "./conformance-service.mts";

const HTTP_VERSION_1 = 1;

const [transport, descriptors] = process.argv.slice(2);
if ((transport !== "h2" && transport !== "node") || descriptors === undefined) {
  console.error("usage: server.mts h2|node DESCRIPTORS");
  process.exit(2);
}
const registry = readDescriptors(readFileSync(descriptors));

async function readMessage(): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  for await (const piece of process.stdin as AsyncIterable<Buffer>) {
    bytes = Buffer.concat([bytes, piece]);
    if (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE(0)) break;
  }
  return bytes.subarray(4, 4 + bytes.readUInt32BE(0));
}

async function listen(wanted: ServerCompatRequest): Promise<number> {
  const options = {
    routes: conformanceRoutes(registry),
    jsonOptions: { registry },
    ...(wanted.messageReceiveLimit > 0 ? { readMaxBytes: wanted.messageReceiveLimit } : {}),
  };
  const http1 = connectNodeAdapter(options);
  const tls =
    wanted.useTls && wanted.serverCreds !== undefined
      ? {
          key: Buffer.from(wanted.serverCreds.key),
          cert: Buffer.from(wanted.serverCreds.cert),
          ...(wanted.clientTlsCert.length > 0
            ? { requestCert: true, rejectUnauthorized: true, ca: Buffer.from(wanted.clientTlsCert) }
            : {}),
        }
      : undefined;
  if (transport === "h2") {
    const server = createServer({
      onRequest: createConnectHandler({ ...options, scheme: tls === undefined ? "http" : "https" }),
      onHttp1Request: http1,
      ...(tls === undefined ? {} : { tls }),
    });
    return server.listen();
  }
  const server: Server =
    tls !== undefined
      ? http2.createSecureServer({ ...tls, allowHTTP1: true }, http1)
      : wanted.httpVersion === HTTP_VERSION_1
        ? http.createServer(http1)
        : http2.createServer(http1);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

process.on("SIGTERM", () => process.exit(0));
const wanted = fromBinary(
  messageOf(registry, "ServerCompatRequest"),
  await readMessage(),
) as unknown as ServerCompatRequest;
const schema = messageOf(registry, "ServerCompatResponse");
const answer = toBinary(
  schema,
  create(schema, {
    host: "127.0.0.1",
    port: await listen(wanted),
    pemCert: wanted.useTls ? wanted.serverCreds?.cert : new Uint8Array(),
  }),
);
const prefix = Buffer.alloc(4);
prefix.writeUInt32BE(answer.length);
process.stdout.write(Buffer.concat([prefix, answer]));
