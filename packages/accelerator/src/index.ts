export { findPjrtPlugin } from "./find-plugin.ts";
export type { FindPluginOptions, FoundPlugin } from "./find-plugin.ts";
export { findPjrtDevice } from "./pjrt-probe.ts";
export type { FoundPjrtDevice } from "./pjrt-probe.ts";
export { openDevice } from "./open-device.ts";
export { compareDevices } from "./compare-devices.ts";
export type { ComparedDevice, CompareOptions } from "./compare-devices.ts";
export { allocateTensor } from "./allocate-tensor.ts";
export { AcceleratorError } from "./errors.ts";
export type { AcceleratorErrorCode } from "./errors.ts";
export type {
  BucketStats,
  Device,
  DeviceMemory,
  DeviceStats,
  ExecuteOptions,
  InputTransfers,
  NamedTensors,
  OpenProgress,
  PrecisionReport,
  SharedFloat32Array,
  TensorSpec,
  WarmUpReport,
} from "./device.ts";
export type { DeviceSpec, OnnxRuntimeSpec, ReferenceSpec, SimulatedSpec } from "./device-spec.ts";
export type { PjrtSpec } from "./pjrt-spec.ts";
export type { CreateOptions } from "./pjrt-native.ts";
export type { ReopenOptions } from "./reopening-device.ts";
