import type { Arm } from "@dlrm/arm-contract";
import { engineArm } from "./engine-arm.ts";

/** The engine with its default, adaptive batching. */
export const arm: Arm = engineArm({ name: "engine", title: "Engine: adaptive batching", batching: "adaptive" });
