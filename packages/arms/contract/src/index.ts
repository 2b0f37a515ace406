export type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, ArmPrepareContext, Platform } from "./arm.ts";
export { PLATFORMS } from "./arm.ts";
