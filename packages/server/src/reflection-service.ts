import { create, type DescService } from "@bufbuild/protobuf";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import {
  type ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
  type ServerReflectionResponseV1Alpha,
  ServerReflectionResponseV1AlphaSchema,
  type ServerReflectionV1Alpha,
} from "@dlrm/proto";
import { DescriptorIndex } from "./descriptor-index.ts";
import type { HealthState } from "./health-state.ts";
import { quote } from "./server-error.ts";
import { whileOpen } from "./while-open.ts";

type Asked = ServerReflectionRequest["messageRequest"];
type Answered = ServerReflectionResponse["messageResponse"];
type Init<Response extends { $typeName: string; messageResponse: unknown; originalRequest?: unknown }> = {
  validHost: string;
  originalRequest: NonNullable<Response["originalRequest"]>;
  messageResponse: Response["messageResponse"];
};

export interface ReflectionServices {
  readonly v1: ServiceImpl<typeof ServerReflection>;
  readonly v1alpha: ServiceImpl<typeof ServerReflectionV1Alpha>;
}

/**
 * grpc.reflection: tells clients such as grpcurl what they can call, and with which messages.
 * https://github.com/grpc/grpc/blob/master/doc/server-reflection.md
 */
export function createReflectionServices(services: readonly DescService[], state: HealthState): ReflectionServices {
  const index = new DescriptorIndex(services.map(({ file }) => file));
  const answer = (asked: Asked): Answered => answerTo(asked, services, index);
  return {
    v1: {
      async *serverReflectionInfo(requests, context) {
        for await (const request of whileOpen(requests, state, context.signal)) {
          const messageResponse = answer(request.messageRequest);
          const init: Init<ServerReflectionResponse> = {
            validHost: request.host,
            originalRequest: request,
            messageResponse,
          };
          yield create(ServerReflectionResponseSchema, init);
        }
      },
    },
    v1alpha: {
      async *serverReflectionInfo(requests, context) {
        for await (const request of whileOpen(requests, state, context.signal)) {
          // The two versions differ in their packages only.
          const messageResponse = answer(request.messageRequest as Asked) as never;
          const init: Init<ServerReflectionResponseV1Alpha> = {
            validHost: request.host,
            originalRequest: request,
            messageResponse,
          };
          yield create(ServerReflectionResponseV1AlphaSchema, init);
        }
      },
    },
  };
}

function answerTo(asked: Asked, services: readonly DescService[], index: DescriptorIndex): Answered {
  switch (asked.case) {
    case "listServices": {
      const service = services.map(({ typeName }) => ({ name: typeName }));
      return filled("listServicesResponse", { service });
    }
    case "fileByFilename": {
      const file = index.byName(asked.value);
      if (file === undefined) return notFound(`no file ${quote(asked.value)}`);
      return filled("fileDescriptorResponse", { fileDescriptorProto: index.encoded(file) });
    }
    case "fileContainingSymbol": {
      const file = index.bySymbol(asked.value);
      if (file === undefined) return notFound(`no symbol ${quote(asked.value)}`);
      return filled("fileDescriptorResponse", { fileDescriptorProto: index.encoded(file) });
    }
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = asked.value;
      return notFound(`no extension ${extensionNumber} of ${quote(containingType)}`);
    }
    case "allExtensionNumbersOfType":
      if (!index.hasMessage(asked.value)) return notFound(`no message ${quote(asked.value)}`);
      return filled("allExtensionNumbersResponse", { baseTypeName: asked.value, extensionNumber: [] });
    default:
      return failed(
        Code.InvalidArgument,
        "expected a request for services, a file, a symbol or an extension, got none",
      );
  }
}

function notFound(errorMessage: string): Answered {
  return failed(Code.NotFound, errorMessage);
}

function failed(errorCode: Code, errorMessage: string): Answered {
  return filled("errorResponse", { errorCode, errorMessage });
}

/** `create` makes messages of these values. */
function filled(name: NonNullable<Answered["case"]>, value: object): Answered {
  return { case: name, value } as unknown as Answered;
}
