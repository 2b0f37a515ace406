import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import {
  type Health,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponseSchema,
  HealthListResponseSchema,
  PredictionService,
  ServingStatus,
} from "@dlrm/proto";
import { toConnectError } from "./connect-error.ts";
import type { HealthState } from "./health-state.ts";
import { parseRequest } from "./request-message.ts";
import { quote, ServerError } from "./server-error.ts";

/** Services whose health is known; the empty name is the server as a whole. */
const KNOWN_SERVICES: ReadonlySet<string> = new Set(["", PredictionService.typeName]);

/** grpc.health.v1.Health: https://github.com/grpc/grpc/blob/master/doc/health-checking.md */
export function createHealthService(state: HealthState): ServiceImpl<typeof Health> {
  const respond = (status: ServingStatus): HealthCheckResponse => create(HealthCheckResponseSchema, { status });
  const current = (): ServingStatus => (state.phase === "serving" ? ServingStatus.SERVING : ServingStatus.NOT_SERVING);

  return {
    check(_request, context) {
      const service = serviceOf(context);
      if (!KNOWN_SERVICES.has(service)) {
        const known = [...KNOWN_SERVICES].map(quote).join(", ");
        throw toConnectError(
          new ServerError("not_found", `unknown service ${quote(service)}: health is known of ${known}`),
        );
      }
      return respond(current());
    },

    list() {
      const statuses = Object.fromEntries([...KNOWN_SERVICES].map((service) => [service, respond(current())]));
      return create(HealthListResponseSchema, { statuses });
    },

    async *watch(_request, context) {
      const known = KNOWN_SERVICES.has(serviceOf(context));
      let sent: ServingStatus | undefined;
      while (!context.signal.aborted && state.phase !== "closed") {
        const status = known ? current() : ServingStatus.SERVICE_UNKNOWN;
        // Taken before the stream may be suspended in a slow reader, so that no change is missed.
        const changed = state.changed(context.signal);
        if (status !== sent) yield respond(status);
        sent = status;
        await changed;
      }
      if (state.phase === "closed") throw new ConnectError("the server is shutting down", Code.Unavailable);
    },
  };
}

function serviceOf(context: HandlerContext): string {
  try {
    return parseRequest(HealthCheckRequestSchema, context.values).service;
  } catch (error) {
    throw toConnectError(error);
  }
}
