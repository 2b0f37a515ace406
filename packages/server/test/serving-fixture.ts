import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import {
  compressionGzip as gzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { exportBundle, type ModelSpec, openReference, type ReferenceModel } from "@dlrm/model";
import { PredictionService } from "@dlrm/proto";
import { type RunningServer, type ServerOptions, startServer, type TransportKind } from "@dlrm/server";

/** Small in every dimension, and with no two dimensions alike: a mix-up of them cannot pass. */
export const TINY_SPEC: ModelSpec = {
  name: "tiny",
  embeddingDim: 8,
  denseFeatures: 3,
  features: [
    { name: "sparse_0", vocabularySize: 50, hotSize: 3, pooling: "sum" },
    { name: "sparse_1", vocabularySize: 7, hotSize: 1, pooling: "sum" },
    { name: "sparse_2", vocabularySize: 1000, hotSize: 5, pooling: "sum" },
    { name: "sparse_3", vocabularySize: 1, hotSize: 2, pooling: "sum" },
  ],
  denseNetwork: { bottomMlp: [16, 8], crossLayers: 2, crossProjection: 4, topMlp: [12, 6, 1] },
};

export interface TemporaryBundle extends AsyncDisposable {
  readonly dir: string;
  readonly reference: ReferenceModel;
}

/** Exports {@link TINY_SPEC} to a temporary directory. */
export async function temporaryBundle(): Promise<TemporaryBundle> {
  const root = await mkdtemp(path.join(tmpdir(), "dlrm-server-test-"));
  const bundle = await exportBundle({
    spec: TINY_SPEC,
    seed: 7,
    dir: path.join(root, "bundle"),
    version: "3",
    buckets: [1, 2, 4, 8, 16, 32, 64],
  });
  const reference = await openReference(bundle);
  return {
    dir: bundle.dir,
    reference,
    async [Symbol.asyncDispose]() {
      await reference.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

let transportUnderTest: TransportKind = "h2";

/** Which of the server's transports the tests that are registered from now on are for. */
export function testTransport(): TransportKind {
  return transportUnderTest;
}

export function setTestTransport(transport: TransportKind): void {
  transportUnderTest = transport;
}

/** A server on a free port of this machine, with the simulated accelerator, which needs no other package. */
export async function startTestServer(
  bundle: TemporaryBundle,
  options: Partial<ServerOptions> = {},
): Promise<RunningServer & AsyncDisposable> {
  const server = await startServer({
    bundle: bundle.dir,
    port: 0,
    device: "simulated",
    frontends: 1,
    transport: transportUnderTest,
    ...options,
  });
  return Object.assign(server, {
    async [Symbol.asyncDispose]() {
      await server.close();
    },
  });
}

export function baseUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}

/** The protocols a client can speak, by name. */
export const TRANSPORTS: Readonly<Record<string, (port: number) => Transport>> = {
  "gRPC over HTTP/2": (port) => createGrpcTransport({ baseUrl: baseUrl(port) }),
  "gRPC with gzip": (port) =>
    createGrpcTransport({ baseUrl: baseUrl(port), sendCompression: gzip, compressMinBytes: 0 }),
  "gRPC-web over HTTP/1.1": (port) => createGrpcWebTransport({ baseUrl: baseUrl(port), httpVersion: "1.1" }),
  "gRPC-web over HTTP/2": (port) => createGrpcWebTransport({ baseUrl: baseUrl(port), httpVersion: "2" }),
  "Connect over HTTP/1.1": (port) =>
    createConnectTransport({ baseUrl: baseUrl(port), httpVersion: "1.1", useBinaryFormat: true }),
  "Connect over HTTP/2 with gzip": (port) =>
    createConnectTransport({
      baseUrl: baseUrl(port),
      httpVersion: "2",
      useBinaryFormat: true,
      sendCompression: gzip,
      compressMinBytes: 0,
    }),
  "Connect JSON over HTTP/1.1": (port) =>
    createConnectTransport({ baseUrl: baseUrl(port), httpVersion: "1.1", useBinaryFormat: false }),
  "Connect JSON over HTTP/2": (port) =>
    createConnectTransport({ baseUrl: baseUrl(port), httpVersion: "2", useBinaryFormat: false }),
};

export function grpcClient(port: number): Client<typeof PredictionService> {
  return createClient(PredictionService, createGrpcTransport({ baseUrl: baseUrl(port) }));
}
