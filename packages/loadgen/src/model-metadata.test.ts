import { create, toBinary } from "@bufbuild/protobuf";
import { DataType, GetModelMetadataResponseSchema, Pooling } from "@dlrm/proto";
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { grpcFrame } from "./grpc-frame.ts";
import { fetchServerModel, serverModelOf } from "./model-metadata.ts";

const answer = create(GetModelMetadataResponseSchema, {
  model: "dcnv2-smoke",
  version: "1",
  inputs: [
    { name: "dense", dataTypes: [DataType.FLOAT32], shape: [-1n, 13n] },
    { name: "sparse_0", dataTypes: [DataType.INT32, DataType.INT64], shape: [-1n, 3n] },
  ],
  tables: [{ input: "sparse_0", vocabularySize: 1000n, embeddingDim: 128, hotSize: 3, pooling: Pooling.SUM }],
  limits: { maxExamplesPerRequest: 4096 },
});

let close: () => void = () => {};
afterEach(() => close());

async function serve(handler: (stream: ServerHttp2Stream, path: string) => void): Promise<number> {
  const server = createServer();
  server.on("session", (session) => {
    close = () => {
      session.destroy();
      server.close();
    };
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    stream.resume();
    stream.on("end", () => handler(stream, String(headers[":path"])));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

describe("fetchServerModel", () => {
  test("reads shape, id type and limit from the server's own description", async () => {
    const port = await serve((stream, path) => {
      expect(path).toBe("/dlrm.serving.v1.PredictionService/GetModelMetadata");
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(grpcFrame(toBinary(GetModelMetadataResponseSchema, answer)));
    });
    expect(await fetchServerModel({ host: "127.0.0.1", port })).toEqual({
      model: "dcnv2-smoke",
      version: "1",
      shape: { denseFeatures: 13, features: [{ name: "sparse_0", vocabularySize: 1000, hotSize: 3 }] },
      idType: "int32",
      maxExamplesPerRequest: 4096,
    });
  });

  test("a server without that model is said", async () => {
    const port = await serve((stream) =>
      stream.respond({ ":status": 200, "grpc-status": "5", "grpc-message": "no model 'x'" }, { endStream: true }),
    );
    await expect(fetchServerModel({ host: "127.0.0.1", port, model: "x" })).rejects.toMatchObject({
      code: "call_failed",
      message: `GetModelMetadata of 127.0.0.1:${port}: NOT_FOUND: no model 'x'`,
    });
  });
});

describe("serverModelOf", () => {
  test("takes int64 where a table takes nothing else, and no limit as none", () => {
    const wide = structuredClone(answer);
    for (const input of wide.inputs) input.dataTypes = [DataType.INT64];
    delete wide.limits;
    expect(serverModelOf(wide, "h:1")).toMatchObject({
      idType: "int64",
      maxExamplesPerRequest: undefined,
    });
  });

  test("a model without tables cannot be loaded", () => {
    expect(() => serverModelOf({ ...answer, tables: [] }, "h:1")).toThrow(
      'the model "dcnv2-smoke" of h:1 has no embedding tables',
    );
  });
});
