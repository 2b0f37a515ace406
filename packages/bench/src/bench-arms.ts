import type { Arm } from "@dlrm/arm-contract";
import { arm as engine } from "@dlrm/arm-engine";
import { arm as engineBatch } from "@dlrm/arm-engine-batch";
import { arm as engineNobatch } from "@dlrm/arm-engine-nobatch";
import { arm as node } from "@dlrm/arm-node";
import { arm as py } from "@dlrm/arm-py";

/** Every arm, in the order of tables and charts. */
export const BENCH_ARMS: readonly Arm[] = [engine, engineBatch, engineNobatch, py, node];
