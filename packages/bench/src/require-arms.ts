import type { Arm } from "@dlrm/arm-contract";
import { BenchError } from "./bench-error.ts";
import type { BenchSettings } from "./settings.ts";

/**
 * Asks before anything is touched whether there will be something to measure.
 *
 * @throws BenchError `usage` if this machine lacks the device that was asked for; `prepare_failed` if it can run none of the arms.
 */
export async function requireArms(settings: BenchSettings, known: readonly Arm[]): Promise<void> {
  const { platform, device } = settings;
  const arms = known.filter(({ name }) => settings.arms.includes(name));
  const lacks: { readonly arm: Arm; readonly missing: string }[] = [];
  for (const arm of arms) {
    const availability = await arm.availability(platform, device);
    if (!availability.available) lacks.push({ arm, missing: availability.missing });
  }
  const lacksDevice = device === undefined ? undefined : lacks.find(({ arm }) => arm.family === "engine");
  if (lacksDevice !== undefined) {
    const got = `got ${JSON.stringify(device)}: ${lacksDevice.missing}`;
    throw new BenchError("usage", `--device: expected one that this machine has, ${got}`);
  }
  if (lacks.length < arms.length) return;
  const reasons = lacks.map(({ arm, missing }) => `\n  ${arm.name}: ${missing}`);
  throw new BenchError("prepare_failed", `this machine lacks what each of the arms needs:${reasons.join("")}`);
}
