import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";

const PCI_DEVICES = "/sys/bus/pci/devices";
const GOOGLE_PCI_VENDOR = "0x1ae0";
/** Chips from v2 to v7, by their PCI device numbers: what tells them from Google's network cards. */
const TPU_PCI_DEVICES: ReadonlySet<string> = new Set([
  "0x0027",
  "0x0056",
  "0x005e",
  "0x0062",
  "0x0063",
  "0x006f",
  "0x0076",
]);

export function isTpuPlugin(pluginPath: string): boolean {
  return /^libtpu.*\.so/.test(path.basename(pluginPath));
}

/** Whether the machine has a TPU on its PCI bus, as seen from here. */
export function hasTpuChip(pciDevices: string = PCI_DEVICES): boolean {
  return countTpuChips(pciDevices) > 0;
}

export function countTpuChips(pciDevices: string = PCI_DEVICES): number {
  const read = (device: string, file: string): string => {
    try {
      return readFileSync(path.join(pciDevices, device, file), "utf8").trim();
    } catch {
      return "";
    }
  };
  let devices: string[];
  try {
    devices = readdirSync(pciDevices);
  } catch {
    return 0;
  }
  return devices.filter(
    (device) => read(device, "vendor") === GOOGLE_PCI_VENDOR && TPU_PCI_DEVICES.has(read(device, "device")),
  ).length;
}

/**
 * The variables a plugin should see beyond those of the process, which win. libtpu asks the metadata server of Google Cloud
 * what the machine is, and does not give up for minutes where there is none: without a TPU it is told not to ask.
 */
export function pluginEnvironment(
  pluginPath: string,
  numThreads: number | undefined,
  env: NodeJS.ProcessEnv = process.env,
  hasChip: () => boolean = hasTpuChip,
): Record<string, string> {
  const variables: Record<string, string> = {};
  if (numThreads !== undefined) variables["PJRT_NPROC"] = String(numThreads);
  if (isTpuPlugin(pluginPath) && env["TPU_SKIP_MDS_QUERY"] === undefined && !hasChip()) {
    variables["TPU_SKIP_MDS_QUERY"] = "1";
  }
  return variables;
}
