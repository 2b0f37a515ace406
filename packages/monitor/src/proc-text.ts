/** Parsers of the texts under /proc (proc(5)); each returns undefined, or 0, on what it does not understand. */

/** What the monitor uses of /proc/PID/stat. Times in clock ticks, memory in pages. */
export interface ProcStat {
  readonly pid: number;
  readonly name: string;
  readonly state: string;
  readonly parentPid: number;
  /** User and system time of the process itself, all its threads, ended ones too. */
  readonly ownTicks: number;
  /** The same of its children that have ended and were waited for, and of theirs. */
  readonly reapedTicks: number;
  /** When the process started, in ticks since boot: tells apart two processes that had the same pid. */
  readonly startTicks: number;
  readonly rssPages: number;
}

/** Parses /proc/PID/stat. The name stands in parentheses and may itself have spaces and parentheses. */
export function parseStat(text: string): ProcStat | undefined {
  const open = text.indexOf("(");
  const close = text.lastIndexOf(")");
  if (open < 0 || close < open) return undefined;
  const pid = Number.parseInt(text.slice(0, open), 10);
  const rest = text.slice(close + 2).split(" ");
  // rest[0] is field 3 of proc(5).
  const field = (number: number): number => Number(rest[number - 3]);
  const stat: ProcStat = {
    pid,
    name: text.slice(open + 1, close),
    state: rest[0] ?? "",
    parentPid: field(4),
    ownTicks: field(14) + field(15),
    reapedTicks: field(16) + field(17),
    startTicks: field(22),
    rssPages: field(24),
  };
  const numbers = [stat.pid, stat.parentPid, stat.ownTicks, stat.reapedTicks, stat.startTicks, stat.rssPages];
  return numbers.every(Number.isFinite) ? stat : undefined;
}

/** Proportional set size of /proc/PID/smaps_rollup, bytes; undefined where it has none. */
export function parsePssBytes(text: string): number | undefined {
  const kib = /^Pss:\s+(\d+) kB$/m.exec(text)?.[1];
  return kib === undefined ? undefined : Number(kib) * 1024;
}

/** Voluntary and involuntary context switches of /proc/PID/task/TID/status. */
export function parseContextSwitches(text: string): number {
  let sum = 0;
  for (const match of text.matchAll(/^(?:non)?voluntary_ctxt_switches:\s+(\d+)$/gm)) sum += Number(match[1]);
  return sum;
}

/** Time on a CPU, microseconds, of /proc/PID/task/TID/schedstat. */
export function parseSchedstatMicros(text: string): number {
  const ns = Number(text.split(" ")[0]);
  return Number.isFinite(ns) ? ns / 1000 : 0;
}

/** Numbers of a list such as /proc/PID/task/TID/children. */
export function parsePids(text: string): number[] {
  return text
    .split(/\s+/)
    .filter((part) => /^\d+$/.test(part))
    .map(Number);
}
