import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";

const PCI_DEVICES = "/sys/bus/pci/devices";
const GOOGLE_PCI_VENDOR = "0x1ae0";

interface TpuGeneration {
  /** What Google Cloud calls one host with so many chips. Two generations without it are not told apart, or not known. */
  readonly acceleratorTypes: Readonly<Record<number, string>>;
}

/** By their PCI device numbers, which also tell chips from Google's network cards. */
const GENERATIONS: Readonly<Record<string, TpuGeneration>> = {
  // v2 and v3.
  "0x0027": { acceleratorTypes: {} },
  "0x0056": { acceleratorTypes: {} },
  // v4 and v5p are named by their cores, two a chip.
  "0x005e": { acceleratorTypes: { 4: "v4-8" } },
  "0x0062": { acceleratorTypes: { 4: "v5p-8" } },
  // v5e
  "0x0063": { acceleratorTypes: { 1: "v5litepod-1", 4: "v5litepod-4", 8: "v5litepod-8" } },
  "0x006f": { acceleratorTypes: { 1: "v6e-1", 4: "v6e-4", 8: "v6e-8" } },
  // TPU7x
  "0x0076": { acceleratorTypes: {} },
};

/** How the chips of a host are laid out, by their number. */
const BOUNDS: Readonly<Record<number, readonly [number, number]>> = { 1: [1, 1], 4: [2, 2], 8: [2, 4] };

/** Any of these says what the machine is. */
const TOPOLOGY_VARIABLES: readonly string[] = [
  "TPU_ACCELERATOR_TYPE",
  "TPU_TOPOLOGY",
  "TPU_CHIPS_PER_HOST_BOUNDS",
  "TPU_CHIPS_PER_PROCESS_BOUNDS",
  "TPU_HOST_BOUNDS",
  "TPU_PROCESS_BOUNDS",
  "TPU_WORKER_HOSTNAMES",
];

/** The PCI device number of each TPU chip that this machine has, as seen from here. */
export function readTpuChips(pciDevices: string = PCI_DEVICES): readonly string[] {
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
    return [];
  }
  return devices
    .filter((device) => read(device, "vendor") === GOOGLE_PCI_VENDOR)
    .map((device) => read(device, "device"))
    .filter((number) => number in GENERATIONS);
}

/**
 * The variables that libtpu should see beyond those of the process. libtpu asks the metadata server of Google Cloud what the machine
 * is, and where there is none does not give up for minutes. So it is told not to ask, unless the process sets
 * `TPU_SKIP_MDS_QUERY` itself:
 *
 * - without a chip, so that it fails at once;
 * - with the chips of one host of a known kind, together with the topology that these have. Not if any variable of the
 *   topology is set: then the machine, or a person, knows better.
 *
 * 0 and false ask: libtpu itself takes everything but an empty text as the wish not to.
 */
export function tpuVariables(chips: readonly string[], env: NodeJS.ProcessEnv): Record<string, string> {
  const skip = env["TPU_SKIP_MDS_QUERY"];
  if (skip !== undefined && ["0", "false"].includes(skip.toLowerCase())) return { TPU_SKIP_MDS_QUERY: "" };
  if (chips.length === 0) return skip === undefined ? { TPU_SKIP_MDS_QUERY: "1" } : {};
  if (TOPOLOGY_VARIABLES.some((name) => env[name])) return {};
  const [first = ""] = chips;
  const acceleratorType = GENERATIONS[first]?.acceleratorTypes[chips.length];
  const bounds = BOUNDS[chips.length];
  if (acceleratorType === undefined || bounds === undefined || chips.some((chip) => chip !== first)) return {};
  return {
    ...(skip === undefined ? { TPU_SKIP_MDS_QUERY: "1" } : {}),
    TPU_ACCELERATOR_TYPE: acceleratorType,
    TPU_TOPOLOGY: bounds.join("x"),
    TPU_CHIPS_PER_HOST_BOUNDS: [...bounds, 1].join(","),
    TPU_HOST_BOUNDS: "1,1,1",
    TPU_WORKER_ID: "0",
    TPU_WORKER_HOSTNAMES: "localhost",
  };
}
