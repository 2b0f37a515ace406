import { PredictionService } from "@dlrm/proto";

/** HTTP/2 path of the method that is loaded. */
export const PREDICT_PATH: string = `/${PredictionService.typeName}/${PredictionService.method.predict.name}`;

/** HTTP/2 path of the method that describes a model. */
export const METADATA_PATH: string = `/${PredictionService.typeName}/${PredictionService.method.getModelMetadata.name}`;
