import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  DataType,
  GetModelMetadataRequestSchema,
  GetModelMetadataResponseSchema,
  type GetModelMetadataResponse,
} from "@dlrm/proto";
import { grpcFrame, onlyMessage } from "./grpc-frame.ts";
import { GrpcStatus, grpcStatusName } from "./grpc-status.ts";
import { connectH2 } from "./h2-connection.ts";
import { LoadError } from "./load-error.ts";
import type { ModelShape } from "./load-options.ts";
import { METADATA_PATH } from "./predict-path.ts";
import { authorityOf } from "./rpc-connection.ts";

/** What a server says of its model, as far as requests depend on it. */
export interface ServerModel {
  readonly model: string;
  readonly version: string;
  readonly shape: ModelShape;
  readonly idType: "int32" | "int64";
  /** Most examples of one request; undefined where the server states no limit. */
  readonly maxExamplesPerRequest: number | undefined;
}

/**
 * Asks a server for the shape of a model (GetModelMetadata); an empty `model` means its only one.
 * Rejects with a LoadError: `connect_failed`, or `call_failed` when the call fails or its answer describes no DLRM.
 */
export async function fetchServerModel(options: {
  readonly host: string;
  readonly port: number;
  readonly model?: string;
  /** Milliseconds, default 10,000. */
  readonly timeoutMs?: number;
}): Promise<ServerModel> {
  const { host, port, model = "", timeoutMs = 10_000 } = options;
  const request = toBinary(GetModelMetadataRequestSchema, create(GetModelMetadataRequestSchema, { model }));
  const message = await callOnce({ host, port, path: METADATA_PATH, timeoutMs }, request);
  return serverModelOf(fromBinary(GetModelMetadataResponseSchema, message), authorityOf(host, port));
}

/** Reads the parts of an answer that requests depend on. */
export function serverModelOf(answer: GetModelMetadataResponse, where: string): ServerModel {
  const dense = answer.inputs.find((input) => input.name === "dense");
  if (answer.tables.length === 0) {
    throw new LoadError("call_failed", `the model ${JSON.stringify(answer.model)} of ${where} has no embedding tables`);
  }
  const ids = answer.inputs.filter((input) => answer.tables.some((table) => table.input === input.name));
  const takesInt32 = ids.every((input) => input.dataTypes.includes(DataType.INT32));
  const most = answer.limits?.maxExamplesPerRequest ?? 0;
  return {
    model: answer.model,
    version: answer.version,
    shape: {
      denseFeatures: dense === undefined ? 0 : Number(dense.shape.at(-1) ?? 0n),
      features: answer.tables.map((table) => ({
        name: table.input,
        vocabularySize: Number(table.vocabularySize),
        hotSize: table.hotSize,
      })),
    },
    idType: takesInt32 ? "int32" : "int64",
    maxExamplesPerRequest: most > 0 ? most : undefined,
  };
}

async function callOnce(
  target: { readonly host: string; readonly port: number; readonly path: string; readonly timeoutMs: number },
  message: Uint8Array,
): Promise<Uint8Array> {
  const { timeoutMs } = target;
  const where = `GetModelMetadata of ${authorityOf(target.host, target.port)}`;
  const answered = Promise.withResolvers<Uint8Array>();
  const fail = (what: string): void => answered.reject(new LoadError("call_failed", `${where}: ${what}`));
  let body: Uint8Array = new Uint8Array(0);
  const connection = await connectH2(
    { ...target, deadlineMs: timeoutMs, collectBodies: true },
    {
      onBody: (_token, bytes) => {
        body = bytes;
      },
      onAnswer: (_token, status, detail) => {
        const only = onlyMessage(body);
        if (status !== GrpcStatus.ok) fail(`${grpcStatusName(status)}: ${detail}`);
        else if (only === undefined) fail("the answer is not one uncompressed message");
        else answered.resolve(only);
      },
      onClosing: () => {},
      onClosed: () => {},
    },
  );
  const timer = setTimeout(() => fail(`no answer within ${timeoutMs} ms`), timeoutMs);
  connection.call(0, grpcFrame(message));
  try {
    return await answered.promise;
  } finally {
    clearTimeout(timer);
    connection.close();
  }
}
