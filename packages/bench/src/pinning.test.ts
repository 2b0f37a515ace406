import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { readMachine } from "./machine.ts";
import { checkPinning, pinned, pinSelf } from "./pinning.ts";
import { processTree } from "./process-tree.ts";

const machine = readMachine();
const command = { file: "node", args: ["server.js"], env: { A: "1" } };
let started: ReturnType<typeof spawn> | undefined;

afterEach(() => {
  started?.kill("SIGKILL");
});

describe("pinned", () => {
  it("runs the command through taskset, with its environment", () => {
    expect(pinned(command, [0, 1, 3], "/bin/taskset")).toEqual({
      file: "/bin/taskset",
      args: ["-c", "0-1,3", "node", "server.js"],
      env: { A: "1" },
    });
  });

  it("changes nothing without taskset", () => {
    expect(pinned(command, [0], undefined)).toBe(command);
  });
});

describe.skipIf(machine.taskset === undefined)("checkPinning (needs taskset)", () => {
  // A parent with a child of its own, which says when both are there.
  const script = `
    const { spawn } = require("node:child_process");
    const child = spawn(process.execPath, ["-e", "console.log(1); setInterval(() => {}, 1e6)"]);
    child.stdout.once("data", () => console.log("ready"));
    process.stdin.resume().once("end", () => child.kill("SIGKILL"));
  `;

  it("finds every thread of every process where it was pinned to", async () => {
    const cpu = machine.cpus[0] as number;
    const { file, args } = pinned({ file: process.execPath, args: ["-e", script], env: {} }, [cpu], machine.taskset);
    started = spawn(file, [...args], { stdio: ["pipe", "pipe", "inherit"] });
    await once(started.stdout!, "data");
    const check = checkPinning(started.pid as number, [cpu]);
    expect(check.processes).toBe(2);
    expect(check.threads).toBeGreaterThan(2);
    expect(check.strays).toEqual([]);
    expect(processTree(started.pid as number)).toHaveLength(2);
    const elsewhere = checkPinning(started.pid as number, [cpu + 1]);
    expect(elsewhere.strays).toHaveLength(elsewhere.threads);
    expect(elsewhere.strays[0]).toMatch(new RegExp(`^thread \\d+ of process ${started.pid} may run on ${cpu}$`));
    const exited = once(started, "exit");
    started.stdin?.end();
    await exited;
  });
});

describe("pinSelf", () => {
  it("does nothing without taskset", () => {
    expect(pinSelf([0], undefined)).toBeUndefined();
  });

  it("says why taskset failed", () => {
    const taskset = path.join(tempFolder("taskset"), "taskset");
    writeFileSync(taskset, '#!/bin/sh\n[ "$2" = 0-1,3 ] && exit 0\necho "failed to set the affinity" >&2\nexit 1\n');
    expect(pinSelf([0], taskset)).toMatch(/^spawnSync .* EACCES$/);
    chmodSync(taskset, 0o755);
    expect(pinSelf([0], taskset)).toBe(`${taskset}: exit code 1: failed to set the affinity`);
    expect(pinSelf([0, 1, 3], taskset)).toBeUndefined();
  });
});

it("a process that has ended has no tree and no threads", async () => {
  started = spawn(process.execPath, ["-e", "0"], { stdio: "ignore" });
  await once(started, "exit");
  expect(processTree(started.pid as number)).toEqual([]);
  expect(checkPinning(started.pid as number, [0])).toEqual({ processes: 0, threads: 0, strays: [] });
});
