import { create, createFileRegistry, type DescService } from "@bufbuild/protobuf";
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  type StringValueSchema,
  file_google_protobuf_wrappers,
  type StringValue,
} from "@bufbuild/protobuf/wkt";

const string = ".google.protobuf.StringValue";
const method = (name: string, clientStreaming: boolean, serverStreaming: boolean) => ({
  name,
  inputType: string,
  outputType: string,
  clientStreaming,
  serverStreaming,
});
const registry = createFileRegistry(
  create(FileDescriptorSetSchema, {
    file: [
      file_google_protobuf_wrappers.proto,
      create(FileDescriptorProtoSchema, {
        name: "echo.proto",
        package: "test",
        syntax: "proto3",
        dependency: ["google/protobuf/wrappers.proto"],
        service: [
          {
            name: "Echo",
            method: [
              method("Unary", false, false),
              method("Client", true, false),
              method("Server", false, true),
              method("Bidi", true, true),
            ],
          },
        ],
      }),
    ],
  }),
);
/** A service of one method of each kind, described here rather than generated. */
export const Echo = registry.getService("test.Echo") as DescService & {
  method: Record<string, { input: typeof StringValueSchema; output: typeof StringValueSchema }>;
};

export interface EchoClient {
  unary(request: { value: string }, options?: object): Promise<StringValue>;
  client(requests: AsyncIterable<{ value: string }>): Promise<StringValue>;
  server(request: { value: string }, options?: object): AsyncIterable<StringValue>;
  bidi(requests: AsyncIterable<{ value: string }>): AsyncIterable<StringValue>;
}
