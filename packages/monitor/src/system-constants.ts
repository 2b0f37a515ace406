import { execFileSync } from "node:child_process";

/** Units of /proc on this system. */
export interface SystemConstants {
  /** Clock ticks in a second: the unit of CPU times. */
  readonly ticksPerS: number;
  readonly pageBytes: number;
}

let constants: SystemConstants | undefined;

/** Asks the system once; without `getconf`, what nearly every Linux has. */
export function systemConstants(): SystemConstants {
  constants ??= { ticksPerS: getconf("CLK_TCK", 100), pageBytes: getconf("PAGESIZE", 4096) };
  return constants;
}

function getconf(name: string, otherwise: number): number {
  try {
    const value = Number(execFileSync("getconf", [name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
    return value > 0 ? value : otherwise;
  } catch {
    return otherwise;
  }
}
