import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  PredictionService,
  ServingStatus,
} from "@dlrm/proto";
import {
  type ServerWritableStream,
  type ServiceDefinition,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { bytesMethod } from "./prediction-service.ts";

/** `grpc.health.v1.Health`: NOT_SERVING until told otherwise, for the server as a whole and for its one service. */
export class HealthHandlers {
  static readonly definition: ServiceDefinition = {
    check: bytesMethod(`/${Health.typeName}/Check`),
    watch: bytesMethod(`/${Health.typeName}/Watch`, true),
  };

  #serving = false;
  readonly #watchers: Set<ServerWritableStream<Buffer, Buffer>> = new Set();

  set serving(value: boolean) {
    this.#serving = value;
    for (const watcher of this.#watchers) watcher.write(this.#status(watcher.request));
  }

  /** Ends the streams of watchers, which would keep a drain from ending. */
  endWatches(): void {
    for (const watcher of this.#watchers) watcher.end();
  }

  implementation(): UntypedServiceImplementation {
    return {
      check: (call: { request: Buffer }, callback: (error: object | null, response?: Buffer) => void): void => {
        if (isKnown(call.request)) callback(null, this.#status(call.request));
        else callback({ code: status.NOT_FOUND, details: "unknown service" });
      },
      watch: (call: ServerWritableStream<Buffer, Buffer>): void => {
        this.#watchers.add(call);
        call.on("cancelled", () => this.#watchers.delete(call));
        call.write(this.#status(call.request));
      },
    };
  }

  #status(request: Buffer): Buffer {
    const serving = this.#serving ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
    const answer = isKnown(request) ? serving : ServingStatus.SERVICE_UNKNOWN;
    return Buffer.from(toBinary(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status: answer })));
  }
}

function isKnown(request: Buffer): boolean {
  const { service } = fromBinary(HealthCheckRequestSchema, request);
  return service === "" || service === PredictionService.typeName;
}
