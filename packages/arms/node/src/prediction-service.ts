import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Bundle } from "@dlrm/model";
import { DataType, GetModelMetadataRequestSchema, PredictionService, PredictResponseSchema } from "@dlrm/proto";
import {
  type handleUnaryCall,
  type MethodDefinition,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServiceDefinition,
  status,
} from "@grpc/grpc-js";
import { checkModel, type RequestDecoder } from "./predict-request.ts";
import type { Predictor } from "./predictor.ts";
import { invalid, RequestError } from "./request-error.ts";

/** What requests need once the model is loaded. */
export interface LoadedModel {
  readonly bundle: Bundle;
  readonly decoder: RequestDecoder;
  readonly predictor: Predictor;
  /** GetModelMetadataResponse, encoded. */
  readonly metadata: Buffer;
}

type Phase =
  | { readonly kind: "starting" }
  | { readonly kind: "serving"; readonly model: LoadedModel }
  | { readonly kind: "draining" };

/** A method whose messages stay bytes: what is wrong with one is then ours to say, and not grpc-js's INTERNAL. */
export function bytesMethod(path: string, responseStream = false): MethodDefinition<Buffer, Buffer> {
  const same = (bytes: Buffer): Buffer => bytes;
  return {
    path,
    requestStream: false,
    responseStream,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}

/** `dlrm.serving.v1.PredictionService` for one model, which may come later than the port. */
export class PredictionHandlers {
  static readonly definition: ServiceDefinition = {
    predict: bytesMethod(`/${PredictionService.typeName}/Predict`),
    getModelMetadata: bytesMethod(`/${PredictionService.typeName}/GetModelMetadata`),
  };

  #phase: Phase = { kind: "starting" };

  serve(model: LoadedModel): void {
    this.#phase = { kind: "serving", model };
  }

  drain(): void {
    this.#phase = { kind: "draining" };
  }

  implementation(): Record<"predict" | "getModelMetadata", handleUnaryCall<Buffer, Buffer>> {
    return {
      predict: (call, callback) => void answer(callback, () => this.#predict(call)),
      getModelMetadata: (call, callback) => void answer(callback, async () => this.#getModelMetadata(call.request)),
    };
  }

  async #predict(call: ServerUnaryCall<Buffer, Buffer>): Promise<Buffer> {
    const { decoder, predictor, bundle } = this.#model();
    const request = decoder.decode(call.request);
    const scores = await predictor.score(request, () => !call.cancelled);
    if (scores === undefined) throw new RequestError(status.CANCELLED, "the caller gave up");
    const response = create(PredictResponseSchema, {
      outputs: {
        scores: {
          dataType: DataType.FLOAT32,
          shape: [BigInt(request.batch)],
          data: new Uint8Array(scores.buffer as ArrayBuffer),
        },
      },
      version: bundle.version,
    });
    return Buffer.from(toBinary(PredictResponseSchema, response));
  }

  #getModelMetadata(bytes: Buffer): Buffer {
    const { bundle, metadata } = this.#model();
    let request;
    try {
      request = fromBinary(GetModelMetadataRequestSchema, bytes);
    } catch (cause) {
      throw invalid(`the request is not a GetModelMetadataRequest message: ${String(cause)}`, { cause });
    }
    checkModel(bundle, request.model, request.version);
    return metadata;
  }

  #model(): LoadedModel {
    const phase = this.#phase;
    if (phase.kind === "serving") return phase.model;
    const why = phase.kind === "starting" ? "starting: the model is being loaded" : "draining: ask another one";
    throw new RequestError(status.UNAVAILABLE, `the server is ${why}`);
  }
}

async function answer(callback: sendUnaryData<Buffer>, work: () => Promise<Buffer>): Promise<void> {
  let bytes: Buffer;
  try {
    bytes = await work();
  } catch (error) {
    const code = error instanceof RequestError ? error.code : status.INTERNAL;
    callback({ code, details: error instanceof Error ? error.message : String(error) });
    return;
  }
  callback(null, bytes);
}
