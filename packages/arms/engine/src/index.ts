export { arm } from "./arm.ts";
export { engineArm } from "./engine-arm.ts";
export type { EngineArmOptions } from "./engine-arm.ts";
export { DEVICE_NAMES, isDeviceName } from "@dlrm/server";
