import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A process of the fake /proc. CPU times in ticks. */
export interface FakeProcess {
  readonly pid: number;
  readonly parentPid: number;
  readonly name?: string;
  readonly state?: string;
  readonly user?: number;
  readonly system?: number;
  readonly reapedUser?: number;
  readonly reapedSystem?: number;
  readonly startTicks?: number;
  readonly rssPages?: number;
  readonly pssKib?: number;
  readonly threads?: readonly {
    readonly tid: number;
    readonly name: string;
    readonly switches: number;
    readonly ns: number;
  }[];
}

/** A folder with files like those of /proc, for processes of the test's choice. */
export class FakeProc {
  readonly root: string = mkdtempSync(path.join(tmpdir(), "dlrm-monitor-"));
  #pids: number[] = [];

  /** Replaces all processes. */
  set(processes: readonly FakeProcess[], options: { readonly childrenFiles?: boolean } = {}): void {
    for (const pid of this.#pids) rmSync(path.join(this.root, String(pid)), { recursive: true, force: true });
    this.#pids = processes.map((process) => process.pid);
    for (const fake of processes) {
      const folder = path.join(this.root, String(fake.pid));
      mkdirSync(folder, { recursive: true });
      writeFileSync(path.join(folder, "stat"), statText(fake));
      if (fake.pssKib !== undefined) {
        writeFileSync(
          path.join(folder, "smaps_rollup"),
          `5500-7fff ---p 0 00:00 0  [rollup]\nRss:  1 kB\nPss:  ${fake.pssKib} kB\n`,
        );
      }
      const threads = fake.threads ?? [{ tid: fake.pid, name: fake.name ?? "test", switches: 0, ns: 0 }];
      const children = processes.filter((child) => child.parentPid === fake.pid).map((child) => child.pid);
      for (const [i, thread] of threads.entries()) {
        const task = path.join(folder, "task", String(thread.tid));
        mkdirSync(task, { recursive: true });
        writeFileSync(
          path.join(task, "status"),
          `Name:\t${thread.name}\nvoluntary_ctxt_switches:\t${thread.switches}\nnonvoluntary_ctxt_switches:\t1\n`,
        );
        writeFileSync(path.join(task, "schedstat"), `${thread.ns} 5 6\n`);
        // The last thread has made the children: all must be asked.
        if (options.childrenFiles === false) continue;
        writeFileSync(path.join(task, "children"), i === threads.length - 1 ? `${children.join(" ")} ` : "");
      }
    }
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

export function statText(fake: FakeProcess): string {
  const { pid, parentPid, name = "test", state = "S", user = 0, system = 0, reapedUser = 0, reapedSystem = 0 } = fake;
  const fields = [parentPid, 1, 1, 0, -1, 4_194_304, 9, 9, 9, 9, user, system, reapedUser, reapedSystem];
  return `${pid} (${name}) ${state} ${fields.join(" ")} 20 0 1 0 ${fake.startTicks ?? 100} 1000000 ${fake.rssPages ?? 0} 18446744073709551615 1 1 0 0\n`;
}
