import type { Arm } from "@dlrm/arm-contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, NOT_PINNED } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("servers of a run", { timeout: 300_000 }, () => {
  it("takes another port when something else took the first one meanwhile", async () => {
    const arm = fakeArm("engine");
    const ports: number[] = [];
    const unlucky: Arm = {
      ...arm,
      command: (options) => {
        ports.push(options.port);
        if (ports.length > 1) return arm.command(options);
        const script = `console.error("listen EADDRINUSE: address already in use 127.0.0.1:" + ${options.port}); process.exit(1)`;
        return { file: process.execPath, args: ["-e", script], env: {} };
      },
    };
    const { exitCode } = await trial.run([unlucky]);
    expect(exitCode).toBe(0);
    expect(ports).toHaveLength(2);
    expect(trial.shown).toContain(`port ${ports[0]} is in use by another process: once more on another`);
  });

  it("warns if the bench itself could not leave the server's CPUs", async () => {
    const leaveServerCpus = (): string => "taskset: exit code 1";
    const { summary } = await trial.run([fakeArm("engine")], {
      flags: { repeats: "2" },
      dependencies: { leaveServerCpus },
    });
    const warning = "the bench itself may have run on the server's CPUs: taskset: exit code 1";
    expect(summary.warnings).toEqual([NOT_PINNED, warning]);
    expect(trial.shown.split(warning)).toHaveLength(2);
  });

  it("kills an arm that ignores SIGTERM, and warns", async () => {
    const arm = fakeArm("engine", { mode: "stubborn", notifyPort: trial.lifeLine.port });
    const { summary, exitCode } = await trial.run([arm], { drainMs: 1 });
    expect(exitCode).toBe(0);
    expect(summary.arms?.[0]?.warnings).toEqual(["did not end within 0.001 s of SIGTERM, and was killed"]);
    const { ended } = await trial.lifeLine.connected();
    await ended;
  });
});
