export {
  DataType,
  GetModelMetadataRequestSchema,
  GetModelMetadataResponseSchema,
  HostBufferSchema,
  LimitsSchema,
  Pooling,
  PredictRequestSchema,
  PredictResponseSchema,
  PredictionService,
  TableMetadataSchema,
  TensorMetadataSchema,
} from "./gen/dlrm/serving/v1/prediction_pb.ts";
export type {
  GetModelMetadataRequest,
  GetModelMetadataResponse,
  HostBuffer,
  Limits,
  PredictRequest,
  PredictResponse,
  TableMetadata,
  TensorMetadata,
} from "./gen/dlrm/serving/v1/prediction_pb.ts";
export {
  Health,
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
  HealthCheckResponseSchema,
  HealthListResponseSchema,
} from "./gen/grpc/health/v1/health_pb.ts";
export type { HealthCheckRequest, HealthCheckResponse } from "./gen/grpc/health/v1/health_pb.ts";
export {
  ServerReflection,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "./gen/grpc/reflection/v1/reflection_pb.ts";
export type { ServerReflectionRequest, ServerReflectionResponse } from "./gen/grpc/reflection/v1/reflection_pb.ts";
export {
  ServerReflection as ServerReflectionV1Alpha,
  ServerReflectionRequestSchema as ServerReflectionRequestV1AlphaSchema,
  ServerReflectionResponseSchema as ServerReflectionResponseV1AlphaSchema,
} from "./gen/grpc/reflection/v1alpha/reflection_pb.ts";
export type {
  ServerReflectionRequest as ServerReflectionRequestV1Alpha,
  ServerReflectionResponse as ServerReflectionResponseV1Alpha,
} from "./gen/grpc/reflection/v1alpha/reflection_pb.ts";
