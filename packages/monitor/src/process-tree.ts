import type { Proc } from "./proc.ts";
import type { ProcStat } from "./proc-text.ts";

interface Known {
  stat: ProcStat;
  /** `reapedTicks` when the process was first seen. */
  readonly firstReapedTicks: number;
  /** Last totals of descendants that were seen and have vanished, and that this process may have waited for. */
  vanishedTicks: number;
}

/**
 * A process with all its descendants, over time.
 *
 * CPU time of the tree counts every process once, whether it runs, has ended or was never seen:
 * - A process that runs counts by its own time, and by the time of the children it waited for, which the kernel adds to
 *   it (cutime, cstime) when they end, seen or not.
 * - A process that vanished is in that sum, if its parent waited for it. It isn't, if the parent ignores SIGCHLD or ended
 *   first. So each process counts by the larger of what the kernel added and what its vanished descendants were last
 *   seen with: never both, and never neither, also when the kernel adds it a moment later than we look.
 * - Without an ancestor that runs, what was last seen stands.
 *
 * A descendant stays in the tree when its parent ends and it is given to another.
 */
export class ProcessTree {
  readonly #proc: Proc;
  #known = new Map<number, Known>();
  #rootless = 0;
  #ticks = 0;
  readonly #roots: readonly number[];
  #rootsFound = false;

  constructor(proc: Proc, roots: readonly number[]) {
    this.#proc = proc;
    this.#roots = roots;
  }

  /** Looks again; returns the processes that run (or are zombies), parents before their children. */
  refresh(): readonly ProcStat[] {
    const before = this.#known;
    const now = new Map<number, Known>();
    // Parents first: a child that ends in between is then missing here and not counted twice.
    const queue = this.#rootsFound ? [...before.keys()] : [...this.#roots];
    this.#rootsFound = true;
    for (let i = 0; i < queue.length; i++) {
      const pid = queue[i] as number;
      if (now.has(pid)) continue;
      const stat = this.#proc.stat(pid);
      if (stat === undefined) continue;
      const old = before.get(pid);
      if (old !== undefined && old.stat.startTicks !== stat.startTicks) {
        // Another process with the pid of one that ended. It is ours only if one of ours has it as a child.
        if (!now.has(stat.parentPid)) continue;
        now.set(pid, { stat, firstReapedTicks: stat.reapedTicks, vanishedTicks: 0 });
      } else {
        now.set(pid, {
          stat,
          firstReapedTicks: old?.firstReapedTicks ?? stat.reapedTicks,
          vanishedTicks: old?.vanishedTicks ?? 0,
        });
      }
      queue.push(...this.#proc.children(pid));
    }
    this.#settleVanished(before, now);
    this.#known = now;
    let ticks = this.#rootless;
    for (const known of now.values()) ticks += totalTicks(known);
    // Readings of one moment are taken one after another, so a sum can fall short of an earlier one; time does not.
    this.#ticks = Math.max(this.#ticks, ticks);
    return [...now.values()].map((known) => known.stat);
  }

  /** CPU time of all processes of the tree since they began, as of the last refresh. Never falls. */
  get cpuTicks(): number {
    return this.#ticks;
  }

  #settleVanished(before: ReadonlyMap<number, Known>, now: ReadonlyMap<number, Known>): void {
    const runs = (known: Known): Known | undefined => {
      const current = now.get(known.stat.pid);
      return current?.stat.startTicks === known.stat.startTicks ? current : undefined;
    };
    // Deepest first, so that what a vanished process owes goes up with its parent, should that have vanished too.
    for (const vanished of [...before.values()].reverse()) {
      if (runs(vanished) !== undefined) continue;
      const parent = before.get(vanished.stat.parentPid);
      const heir = parent === undefined ? undefined : (runs(parent) ?? parent);
      if (heir === undefined || heir === vanished) this.#rootless += totalTicks(vanished);
      else heir.vanishedTicks += totalTicks(vanished);
    }
  }
}

function totalTicks({ stat, firstReapedTicks, vanishedTicks }: Known): number {
  return stat.ownTicks + firstReapedTicks + Math.max(stat.reapedTicks - firstReapedTicks, vanishedTicks);
}
