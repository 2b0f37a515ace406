import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import {
  create,
  createFileRegistry,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescService,
  type FileRegistry,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

export const ROOT: string = fileURLToPath(new URL("../../..", import.meta.url));
/** What the bench builds: descriptors, bodies and the servers of others. */
export const CACHE: string = path.join(ROOT, "node_modules/.cache/h2-bench");
export const PREDICT_PATH = "/dlrm.serving.v1.PredictionService/Predict";

const HOT_SIZES = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1];
const DENSE_FEATURES = 13;
const FLOAT32 = 1;
const INT32 = 2;

/** The service's descriptors, made from the workspace's proto: what generated code would carry. */
export function readRegistry(): FileRegistry {
  const file = path.join(CACHE, "prediction.binpb");
  if (!existsSync(file)) {
    mkdirSync(CACHE, { recursive: true });
    execFileSync(path.join(ROOT, "node_modules/.bin/buf"), ["build", path.join(ROOT, "proto"), "-o", file]);
  }
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(file)));
}

export interface PredictDescriptors {
  readonly request: DescMessage;
  readonly response: DescMessage;
  readonly service: DescService;
}

export function predictDescriptors(): PredictDescriptors {
  const registry = readRegistry();
  const of = (name: string): string => `dlrm.serving.v1.${name}`;
  return {
    request: registry.getMessage(of("PredictRequest")) as DescMessage,
    response: registry.getMessage(of("PredictResponse")) as DescMessage,
    service: registry.getService(of("PredictionService")) as DescService,
  };
}

/** A gRPC request body: the prefix of five octets, and a PredictRequest of so many examples, 27 tensors. */
export function requestBody(examples: number): Buffer {
  const int32 = (count: number): Uint8Array => {
    const values = Int32Array.from({ length: count }, (_, index) => Math.imul(index + 1, 2_654_435_761) >>> 12);
    return new Uint8Array(values.buffer);
  };
  const inputs: Record<string, object> = {
    dense: {
      dataType: FLOAT32,
      shape: [BigInt(examples), BigInt(DENSE_FEATURES)],
      data: new Uint8Array(Float32Array.from({ length: examples * DENSE_FEATURES }, (_, index) => index / 7).buffer),
    },
  };
  for (const [table, hotSize] of HOT_SIZES.entries()) {
    const shape = [BigInt(examples), BigInt(hotSize)];
    inputs[`sparse_${table}`] = { dataType: INT32, shape, data: int32(examples * hotSize) };
  }
  const { request } = predictDescriptors();
  const message = toBinary(request, create(request, { inputs }));
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  return body;
}

/** A gRPC response body: one float, its last four octets. */
export function responseBody(score: number): Buffer {
  const { response } = predictDescriptors();
  const data = new Uint8Array(Float32Array.of(score).buffer);
  const message = toBinary(
    response,
    create(response, { outputs: { scores: { dataType: FLOAT32, shape: [1n], data } } }),
  );
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  return body;
}
