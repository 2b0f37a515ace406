import type { Arm } from "@dlrm/arm-contract";
import { arm as engine } from "@dlrm/arm-engine";
import { arm as engineBatch } from "@dlrm/arm-engine-batch";
import { arm as engineNobatch } from "@dlrm/arm-engine-nobatch";
import { arm as node } from "@dlrm/arm-node";
import { arm as py } from "@dlrm/arm-py";
import { arm as pyBatch } from "@dlrm/arm-py-batch";
import { arm as pyMp } from "@dlrm/arm-py-mp";
import { arm as pyMpBatch } from "@dlrm/arm-py-mp-batch";

/** Every arm, in the order of tables and charts. */
export const BENCH_ARMS: readonly Arm[] = [engine, engineBatch, engineNobatch, py, pyBatch, pyMp, pyMpBatch, node];
