import type { Arm } from "@dlrm/arm-contract";
import { cacheDir } from "./commands.ts";
import type { RunContext } from "./run-context.ts";

/** Makes what an arm needs, once; an arm that cannot run on this machine is skipped. */
export async function prepareArm({ settings, dependencies, record }: RunContext, arm: Arm): Promise<void> {
  const { platform, device } = settings;
  const { progress, signal } = dependencies;
  const availability = await arm.availability(platform, device);
  if (!availability.available) {
    const reason = `This machine lacks what it needs: ${availability.missing}`;
    progress.note(`${arm.name} is skipped. ${reason}`);
    record.findings.giveUp(arm.name, { status: "skipped", reason });
    return;
  }
  await arm.prepare({
    platform,
    cacheDir: cacheDir(settings),
    report: (line) => progress.note(`  ${line}`),
    signal,
  });
}
