import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Arm } from "@dlrm/arm-contract";
import { beforeEach, describe, expect, it } from "vitest";
import { fakeArm } from "../test/fake-arm.ts";
import { tempFolder } from "../test/temp-folder.ts";
import { runCommand } from "./command.ts";
import { Progress } from "./progress.ts";

const neverCalled = (): never => {
  throw new Error("not to be called");
};

let currentDir: string;
let out: string;
let err: string;

beforeEach(() => {
  currentDir = tempFolder("command");
  out = "";
  err = "";
});

function command(...args: string[]): Promise<number> {
  return commandWith([fakeArm("engine"), fakeArm("engine-batch"), fakeArm("py", { family: "python" })], args);
}

function commandWith(arms: readonly Arm[], args: readonly string[]): Promise<number> {
  return runCommand({
    args,
    currentDir,
    arms,
    machine: { cpus: [0, 1], memoryBytes: 1e9, taskset: "/usr/bin/taskset" },
    progress: new Progress({ write: () => undefined }),
    stdout: (text) => (out += text),
    stderr: (text) => (err += text),
    signal: new AbortController().signal,
    dependencies: {
      measure: neverCalled,
      measureDenseNetwork: neverCalled,
      prepareBundle: neverCalled,
      openReference: neverCalled,
      describeMachine: neverCalled,
      describeEnvironment: neverCalled,
      leaveServerCpus: neverCalled,
      drainMs: 1,
    },
  });
}

describe("dlrm-bench --dry_run", () => {
  const args =
    "--dry-run --platform sim --arms engine,py --concurrencies 1 --request-batch-sizes=1,16 --duration 5 --repeats 2";

  it("says of an arm that cannot run here why, and prints the rest of the plan", async () => {
    const lacking: Arm = {
      ...fakeArm("py", { family: "python" }),
      command: () => {
        throw new Error("no usable Python: need CPython >= 3.11 with venv");
      },
    };
    expect(await commandWith([fakeArm("engine"), lacking], args.split(" "))).toBe(0);
    expect(err).toBe("");
    expect(out.split("    # py cannot run here: no usable Python: need CPython >= 3.11 with venv\n")).toHaveLength(3);
    expect(out).toContain("44 steps, ");
  });

  it("prints every step with its command and the duration, and starts nothing", async () => {
    expect(await command(...args.split(" "))).toBe(0);
    expect(err).toBe("");
    const lines = out.trimEnd().split("\n");
    const steps = lines.filter((line) => line.startsWith("["));
    // 1 model, 2 prepare, and start, 2 parity, 2 closed and 4 open load, stop of 2 arms in 2 repeats, report.
    expect(steps).toHaveLength(44);
    expect(lines).toHaveLength(44 * 2 + 2);
    expect(lines[1]).toBe(`    dlrm-model export --preset dcnv2-6m --out ${currentDir}/bench-work/bundles/dcnv2-6m`);
    expect(out).toMatch(
      /py, repeat 1: start .*\n {4}\/usr\/bin\/taskset -c 0 .*fake-server\.ts --port PORT --mode ok\n/,
    );
    expect(out).toMatch(/load, B_req 16, C 1 \(about 8 s\)\n {4}\/usr\/bin\/taskset -c 1 .*"concurrency":1/);
    expect(out).toMatch(/load, B_req 1, open loop at 80 % of the peak .*\n.*"offeredRps":"0.8 of the peak"/);
    expect(lines.at(-1)).toMatch(/^44 steps, about \d+ min\. Nothing was started\.$/);
    expect(existsSync(path.join(currentDir, "bench-work"))).toBe(false);
  });

  it("lists what --resume would do, if there is a run to continue", async () => {
    expect(await command("--smoke", "--arms", "engine", "--dry_run", "--resume")).toBe(2);
    expect(err).toMatch(/^dlrm-bench: --resume: expected a run to continue, got no .*run\.json: ENOENT/);
  });

  it.each(["file", "file/work"])("refuses the work_dir %s, as a run would where there is a file", async (name) => {
    writeFileSync(path.join(currentDir, "file"), "");
    expect(await command(...args.split(" "), "--work_dir", name)).toBe(2);
    const [workDir, file] = [path.join(currentDir, name), path.join(currentDir, "file")];
    const expected = "expected a folder that can be written";
    expect([out, err]).toEqual(["", `dlrm-bench: --work_dir: ${expected}, got ${workDir}: ${file} is not a folder\n`]);
  });

  it.each(["link", "link/work"])(
    "refuses the work_dir %s, as a run would where there is a link to nothing",
    async (name) => {
      symlinkSync(path.join(currentDir, "gone"), path.join(currentDir, "link"));
      expect(await command(...args.split(" "), "--work_dir", name)).toBe(2);
      expect(out).toBe("");
      expect(err).toMatch(/^dlrm-bench: --work_dir: expected a folder that can be written, got .*\/link.*: ENOENT: /);
    },
  );

  it("lists the smoke run", async () => {
    expect(await command("--smoke", "--arms", "engine", "--dry_run")).toBe(0);
    expect(out).toContain("bench-work/bundles/dcnv2-smoke");
    const task = {
      bundleDir: `${currentDir}/bench-work/bundles/dcnv2-smoke`,
      batch: 128,
      numThreads: 1,
      rounds: 1,
      seed: 1,
    };
    expect(out).toMatch(
      /\] dense network on this CPU \(about 7 s\)\n {4}\/usr\/bin\/taskset -c 0 .*dense-network-child\.ts /,
    );
    expect(out).toContain(`dense-network-child.ts '${JSON.stringify(task)}'\n`);
  });
});

describe("wrong usage", () => {
  it("names the nearest flag", async () => {
    expect(await command("--request-batch-size", "1")).toBe(2);
    expect(err).toContain("unknown option '--request_batch_size'\n(Did you mean --request_batch_sizes?)");
  });

  it("names every wrong value at once", async () => {
    expect(await command("--platform", "gpu", "--duration", "x")).toBe(2);
    expect(err).toBe(
      'dlrm-bench: --platform: expected one of cpu, cuda, tpu, sim, got "gpu"\n--duration: expected a number of at least 0.1, got "x"\n',
    );
  });

  it("refuses arguments that are no flags, and flags without their value", async () => {
    expect(await command("engine")).toBe(2);
    expect(await command("--arms")).toBe(2);
    expect(err).toContain("--arms <list>");
  });
});

it("--resume makes no folder where there is no run to continue", async () => {
  expect(await command("--smoke", "--arms", "engine", "--resume", "--work_dir", "slip/work")).toBe(2);
  expect(err).toMatch(
    /^dlrm-bench: --resume: expected a run to continue, got no .*slip\/work\/results\/run\.json: ENOENT/,
  );
  expect(readdirSync(currentDir)).toEqual([]);
});

it("--help names every flag and ends well", async () => {
  expect(await command("--help")).toBe(0);
  expect(out).toContain("--request_batch_sizes <list>");
  expect(out).toContain("Example:");
});

it("--version says the package's", async () => {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  expect([await command("--version"), out]).toEqual([0, `${(JSON.parse(text) as { version: string }).version}\n`]);
});
