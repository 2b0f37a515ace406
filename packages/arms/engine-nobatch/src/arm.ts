import type { Arm } from "@dlrm/arm-contract";
import { engineArm } from "@dlrm/arm-engine";

/** The engine with batching off, as the reference's `xse-nobatch`. */
export const arm: Arm = engineArm({ name: "engine-nobatch", title: "Engine: no batching", batching: "off" });
