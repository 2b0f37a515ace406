export { EmbeddingError } from "./embedding-error.ts";
export type { EmbeddingErrorCode, OutOfVocabularyId } from "./embedding-error.ts";
export { attachEmbeddingStore, openEmbeddingStore } from "./embedding-store.ts";
export type {
  EmbeddingStore,
  EmbeddingStoreHandle,
  EmbeddingStoreOptions,
  GatherPlan,
  KernelInfo,
  RowUpdate,
} from "./embedding-store.ts";
export type { KernelChoice } from "./kernel-choice.ts";
export type { PlanFeature, Pooling } from "./plan-layout.ts";
export { ErrorMeter, quantizeRows } from "./quantize.ts";
export type { QuantizationError } from "./quantize.ts";
export { quantizeFile } from "./quantize-file.ts";
export type { QuantizeOptions, QuantizedTable } from "./quantize-file.ts";
export type { EmbeddingSource, OutOfVocabularyPolicies, TableRows } from "./table-source.ts";
export type { OutOfVocabularyPolicy, TableDtype, TableInfo } from "./table.ts";
