import { readFileSync } from "node:fs";
import { cpus } from "node:os";

/** Instruction sets that decide what a precision is worth on a CPU, as /proc/cpuinfo names them. */
const INSTRUCTION_SETS: readonly string[] = [
  "avx2",
  "avx512f",
  "avx512_vnni",
  "avx512_bf16",
  "amx_tile",
  "amx_int8",
  "amx_bf16",
  // Arm's.
  "asimd",
  "i8mm",
  "bf16",
];

/** The CPU's model, and which of the instruction sets it has. */
export function describeCpu(cpuinfo: string = readCpuinfo()): string {
  const flags = new Set(/^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1]?.trim().split(/\s+/));
  const model = cpus()[0]?.model.trim() ?? "an unknown CPU";
  const has = INSTRUCTION_SETS.filter((name) => flags.has(name));
  const amx = flags.has("amx_tile") ? "" : ", without AMX";
  return flags.size === 0 ? model : `${model} (${has.join(", ")}${amx})`;
}

function readCpuinfo(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    // Linux has it.
    return "";
  }
}
