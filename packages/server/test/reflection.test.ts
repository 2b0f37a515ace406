import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ServerReflection, ServerReflectionV1Alpha } from "@dlrm/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { baseUrl, startTestServer, type TemporaryBundle, temporaryBundle, testTransport } from "./serving-fixture.ts";

let bundle: TemporaryBundle;
let server: Awaited<ReturnType<typeof startTestServer>>;
let transport: Transport;
beforeAll(async () => {
  bundle = await temporaryBundle();
  server = await startTestServer(bundle);
  transport = createGrpcTransport({ baseUrl: baseUrl(server.port) });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await bundle[Symbol.asyncDispose]();
});

const NAMES = [
  "dlrm.serving.v1.PredictionService",
  "grpc.health.v1.Health",
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
];

async function* inTurn<Value>(...values: Value[]): AsyncGenerator<Value> {
  yield* values;
}

async function collect<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const all: Value[] = [];
  for await (const value of values) all.push(value);
  return all;
}

describe.each(["v1", "v1alpha"] as const)("reflection %s", (version) => {
  // The two have the same messages, by other names.
  const client = (): ReturnType<typeof createClient<typeof ServerReflection>> =>
    createClient((version === "v1" ? ServerReflection : ServerReflectionV1Alpha) as typeof ServerReflection, transport);
  type Asked =
    Parameters<ReturnType<typeof client>["serverReflectionInfo"]>[0] extends AsyncIterable<infer Init> ? Init : never;
  const ask = async (...asked: NonNullable<Asked["messageRequest"]>[]) => {
    const requests = asked.map((messageRequest): Asked => ({ host: "here", messageRequest }));
    const answers = await collect(client().serverReflectionInfo(inTurn(...requests)));
    expect(answers.map(({ validHost }) => validHost)).toEqual(asked.map(() => "here"));
    expect(answers.map(({ originalRequest }) => originalRequest?.messageRequest)).toMatchObject(asked);
    return answers.map(({ messageResponse }) => messageResponse);
  };

  test("a client that knows no messages lists the services, and calls one by what it is told", async () => {
    const [list, found] = await ask(
      { case: "listServices", value: "*" },
      { case: "fileContainingSymbol", value: NAMES[0] as string },
    );
    expect(list).toMatchObject({ case: "listServicesResponse", value: { service: NAMES.map((name) => ({ name })) } });
    if (found?.case !== "fileDescriptorResponse") throw new Error(`expected a file, got ${found?.case}`);
    const file = found.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file }));
    const service = registry.getService(NAMES[0] as string);
    if (service === undefined) throw new Error("the file has no PredictionService");
    const calls = createClient(service, transport) as unknown as Record<string, (request: object) => Promise<unknown>>;
    const metadata = await calls["getModelMetadata"]?.({});
    expect(metadata).toMatchObject({ model: "tiny", version: "3" });
  });

  test("symbols of every kind, and files by name, are found; what is not there is NOT_FOUND", async () => {
    const symbols = [
      "dlrm.serving.v1.PredictionService.Predict",
      ".dlrm.serving.v1.PredictRequest",
      "dlrm.serving.v1.PredictRequest.inputs",
      "dlrm.serving.v1.DATA_TYPE_INT64",
      "grpc.health.v1.HealthCheckResponse.ServingStatus",
      "grpc.health.v1.HealthCheckResponse.SERVING",
    ];
    const files = await ask(...symbols.map((value) => ({ case: "fileContainingSymbol" as const, value })), {
      case: "fileByFilename",
      value: "grpc/health/v1/health.proto",
    });
    const names = files.map((answer) => {
      if (answer.case !== "fileDescriptorResponse") throw new Error(`expected a file, got ${answer.case}`);
      return fromBinary(FileDescriptorProtoSchema, answer.value.fileDescriptorProto[0] as Uint8Array).name;
    });
    const [dlrm, health] = ["dlrm/serving/v1/prediction.proto", "grpc/health/v1/health.proto"];
    expect(names).toEqual([dlrm, dlrm, dlrm, dlrm, health, health, health]);

    const answers = await ask(
      { case: "fileContainingSymbol", value: "dlrm.serving.v1.Nothing" },
      { case: "fileByFilename", value: "nothing.proto" },
      { case: "allExtensionNumbersOfType", value: "dlrm.serving.v1.PredictRequest" },
      { case: "allExtensionNumbersOfType", value: "dlrm.serving.v1.PredictionService" },
      { case: undefined },
    );
    expect(answers).toMatchObject([
      { value: { errorCode: Code.NotFound, errorMessage: 'no symbol "dlrm.serving.v1.Nothing"' } },
      { value: { errorCode: Code.NotFound, errorMessage: 'no file "nothing.proto"' } },
      { value: { baseTypeName: "dlrm.serving.v1.PredictRequest", extensionNumber: [] } },
      { value: { errorCode: Code.NotFound } },
      { value: { errorCode: Code.InvalidArgument } },
    ]);
  });
});

test("a client that holds its stream open does not hold up a drain", async () => {
  await using other = await startTestServer(bundle, { transport: testTransport() });
  const client = createClient(ServerReflection, createGrpcTransport({ baseUrl: baseUrl(other.port) }));
  let letGo: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const requests = (async function* () {
    yield { messageRequest: { case: "listServices" as const, value: "" } };
    await held;
  })();
  const answers = client.serverReflectionInfo(requests)[Symbol.asyncIterator]();
  expect((await answers.next()).value).toMatchObject({ messageResponse: { case: "listServicesResponse" } });
  const rest = answers.next().catch((reason: unknown) => ConnectError.from(reason).code);
  expect(await other.drain()).toEqual({ unfinishedRequests: 0 });
  expect(await rest).toBe(Code.Unavailable);
  letGo();
});
