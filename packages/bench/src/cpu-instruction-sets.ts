import { readFileSync } from "node:fs";

/** Instruction sets that decide what a kernel and a precision are worth on a CPU, as /proc/cpuinfo names them. */
const DECISIVE: readonly string[] = [
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

/** Those of them that this machine's CPU has, apart by spaces; undefined where /proc/cpuinfo does not tell. */
export function cpuInstructionSets(file = "/proc/cpuinfo"): string | undefined {
  let cpuinfo: string;
  try {
    cpuinfo = readFileSync(file, "utf8");
  } catch {
    // Linux alone has it.
    return undefined;
  }
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1]?.trim().split(/\s+/);
  return flags === undefined ? undefined : DECISIVE.filter((name) => flags.includes(name)).join(" ");
}
