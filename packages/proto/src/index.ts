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
} from "./gen/grpc/health/v1/health_pb.ts";
export type { HealthCheckRequest, HealthCheckResponse } from "./gen/grpc/health/v1/health_pb.ts";
