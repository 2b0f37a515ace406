import { spawn } from "node:child_process";
import { once } from "node:events";
import fs, { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import path from "node:path";
import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { LOCK_FILE, takeWorkDir } from "./work-dir.ts";

let folder: string;

beforeEach(() => {
  folder = tempFolder("work-dir");
});

function lockFile(): string {
  return path.join(folder, LOCK_FILE);
}

it("makes the folder with its parents, and leaves no lock once it is given back", () => {
  const deep = path.join(folder, "a", "b");
  const giveBack = takeWorkDir(deep);
  expect(existsSync(path.join(deep, LOCK_FILE))).toBe(true);
  giveBack();
  expect(existsSync(path.join(deep, LOCK_FILE))).toBe(false);
  takeWorkDir(deep)();
});

it("refuses a folder that a process that lives has, and says which", () => {
  const giveBack = takeWorkDir(folder);
  const { since } = JSON.parse(readFileSync(lockFile(), "utf8")) as { since: string };
  // Another run of this process is a run, too; its lock differs in the time.
  writeFileSync(lockFile(), readFileSync(lockFile(), "utf8").replace(since, "2026-01-02T03:04:05.678Z"));
  expect(() => takeWorkDir(folder)).toThrow(
    expect.objectContaining({
      code: "usage",
      message:
        `--work_dir: expected a folder that no other run uses, got ${folder}, which process ${process.pid} has used since ` +
        "2026-01-02T03:04:05.678Z: wait until it has ended, or name another folder",
    }),
  );
  giveBack();
  expect(existsSync(lockFile()), "the lock of another run stays").toBe(true);
});

it("refuses a folder that a process of another machine has, dead or alive", () => {
  writeFileSync(lockFile(), JSON.stringify({ pid: 1, host: "elsewhere.example", since: "2026-01-02T03:04:05.678Z" }));
  expect(() => takeWorkDir(folder)).toThrow(
    `which process 1 of elsewhere.example has used since 2026-01-02T03:04:05.678Z: wait until it has ended, or name ` +
      `another folder; if it has ended already, remove ${lockFile()}`,
  );
  expect(existsSync(lockFile())).toBe(true);
});

it("leaves nothing else in the folder", () => {
  writeFileSync(lockFile(), "{");
  const giveBack = takeWorkDir(folder);
  expect(readdirSync(folder)).toEqual([LOCK_FILE]);
  giveBack();
  expect(readdirSync(folder)).toEqual([]);
});

it("takes over from a process that was killed", async () => {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { stdio: "ignore" });
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  writeFileSync(lockFile(), JSON.stringify({ pid: child.pid, startTicks: "1", since: "2026-01-02T03:04:05.678Z" }));
  takeWorkDir(folder)();
  expect(existsSync(lockFile())).toBe(false);
});

it.skipIf(!existsSync("/proc/self/stat"))(
  "takes over where another process has got the holder's pid (needs /proc)",
  () => {
    writeFileSync(lockFile(), JSON.stringify({ pid: process.pid, startTicks: "1", since: "2026-01-02T03:04:05.678Z" }));
    takeWorkDir(folder)();
    expect(existsSync(lockFile())).toBe(false);
  },
);

it("loses no lock of a run that was quicker to take over, though a third run finds the name free meanwhile", () => {
  writeFileSync(lockFile(), JSON.stringify({ pid: 2 ** 22 + 1, since: "2026-01-02T03:04:05.678Z" }));
  const quicker = JSON.stringify({ pid: process.ppid, since: "2026-01-02T03:04:06.000Z" });
  const third = JSON.stringify({ pid: process.ppid, since: "2026-01-02T03:04:07.000Z" });
  const rename = fs.renameSync;
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  vi.spyOn(process, "kill").mockImplementation((pid) => {
    if (pid === process.ppid) return true;
    // Just now this one has found that the holder is dead.
    writeFileSync(lockFile(), quicker);
    throw Object.assign(new Error("no such process"), { code: "ESRCH" });
  });
  vi.spyOn(fs, "renameSync").mockImplementation((from, to) => {
    rename(from, to);
    if (from === lockFile()) writeFileSync(from, third, { flag: "wx" });
  });
  syncBuiltinESMExports();
  expect(() => takeWorkDir(folder)).toThrow(
    `which process ${process.ppid} has used since 2026-01-02T03:04:06.000Z: wait until it has ended`,
  );
  expect(readFileSync(lockFile(), "utf8")).toBe(quicker);
  expect(readdirSync(folder)).toEqual([LOCK_FILE]);
});

it("takes over though one that took over before was killed while it did", () => {
  for (const file of [lockFile(), `${lockFile()}.takeover`]) writeFileSync(file, "{");
  takeWorkDir(folder)();
  expect(readdirSync(folder)).toEqual([]);
});

it("leaves a lock alone that another run is taking over just now", () => {
  const taking = JSON.stringify({ pid: process.ppid, since: "2026-01-02T03:04:06.000Z" });
  writeFileSync(lockFile(), "{");
  writeFileSync(`${lockFile()}.takeover`, taking);
  expect(() => takeWorkDir(folder)).toThrow(`which process ${process.ppid} has used since 2026-01-02T03:04:06.000Z`);
  expect(readdirSync(folder)).toEqual([LOCK_FILE, `${LOCK_FILE}.takeover`]);
});

it.skipIf(!existsSync("/dev/full"))("leaves no half lock on a full disk (needs /dev/full)", () => {
  onTestFinished(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });
  const write = fs.writeFileSync;
  vi.spyOn(fs, "writeFileSync").mockImplementation((file, text, options) => {
    write(file, "", options);
    write("/dev/full", text);
  });
  syncBuiltinESMExports();
  expect(() => takeWorkDir(folder)).toThrow("ENOSPC");
  expect(readdirSync(folder)).toEqual([]);
});

it.each(["", "{", "null", '{"pid":"x"}', '{"pid":0}'])("takes over a lock that holds %j", (text) => {
  writeFileSync(lockFile(), text);
  takeWorkDir(folder)();
  expect(existsSync(lockFile())).toBe(false);
});

it("names a folder that cannot be made, and why", () => {
  writeFileSync(path.join(folder, "file"), "");
  const inFile = path.join(folder, "file", "work");
  expect(() => takeWorkDir(inFile)).toThrow(
    expect.objectContaining({
      code: "usage",
      message: expect.stringContaining(`--work_dir: expected a folder that can be written, got ${inFile}: ENOTDIR`),
    }),
  );
});

// Node's own recursive mkdir never returns there.
it.skipIf(!existsSync("/proc/self"))("names a folder under one that takes none (needs /proc)", () => {
  expect(() => takeWorkDir("/proc/dlrm/work")).toThrow(
    /^--work_dir: expected a folder that can be written, got \/proc\/dlrm\/work: (ENOENT|EACCES|EPERM)/,
  );
});
