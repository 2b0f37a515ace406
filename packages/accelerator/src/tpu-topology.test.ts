import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { readTpuChips, tpuVariables } from "./tpu-topology.ts";

const [V2_OR_V3, V4, V5P, V5E, V6E, V7X] = ["0x0027", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"];
const chips = (count: number, device: string | undefined): string[] => Array.from({ length: count }, () => device!);

describe("the topology of one host", () => {
  test.each([
    [1, V6E, "v6e-1", "1x1", "1,1,1"],
    [4, V6E, "v6e-4", "2x2", "2,2,1"],
    [8, V6E, "v6e-8", "2x4", "2,4,1"],
    [1, V5E, "v5litepod-1", "1x1", "1,1,1"],
    [4, V5E, "v5litepod-4", "2x2", "2,2,1"],
    [8, V5E, "v5litepod-8", "2x4", "2,4,1"],
    [4, V4, "v4-8", "2x2", "2,2,1"],
    [4, V5P, "v5p-8", "2x2", "2,2,1"],
  ])("of %i chips %s is derived as %s", (count, device, type, topology, bounds) => {
    expect(tpuVariables(chips(count, device), {})).toEqual({
      TPU_SKIP_MDS_QUERY: "1",
      TPU_ACCELERATOR_TYPE: type,
      TPU_TOPOLOGY: topology,
      TPU_CHIPS_PER_HOST_BOUNDS: bounds,
      TPU_HOST_BOUNDS: "1,1,1",
      TPU_WORKER_ID: "0",
      TPU_WORKER_HOSTNAMES: "localhost",
    });
  });

  test.each([
    ["a number of chips that no host has", chips(2, V6E)],
    ["generations that have one number", chips(4, V2_OR_V3)],
    ["a generation whose names are not known", chips(4, V7X)],
    ["chips of two generations", [...chips(3, V6E), ...chips(1, V5E)]],
  ])("is libtpu's to ask for with %s", (_what, found) => {
    expect(tpuVariables(found, {})).toEqual({});
  });

  test.each<[string, Record<string, string>]>([
    ["an accelerator type", { TPU_ACCELERATOR_TYPE: "v6e-16" }],
    ["bounds", { TPU_CHIPS_PER_PROCESS_BOUNDS: "1,1,1", TPU_PROCESS_BOUNDS: "1,1,1" }],
    ["host names", { TPU_WORKER_HOSTNAMES: "a,b" }],
  ])("is left alone where the process has %s", (_what, env) => {
    expect(tpuVariables(chips(1, V6E), env)).toEqual({});
  });

  test("is completed where the process only says not to ask", () => {
    const derived = tpuVariables(chips(1, V6E), { TPU_SKIP_MDS_QUERY: "true" });
    expect(derived).toMatchObject({ TPU_ACCELERATOR_TYPE: "v6e-1" });
    expect(derived).not.toHaveProperty("TPU_SKIP_MDS_QUERY");
  });

  test("of no chip is none, and libtpu is told not to ask, unless the process says otherwise", () => {
    expect(tpuVariables([], {})).toEqual({ TPU_SKIP_MDS_QUERY: "1" });
    expect(tpuVariables([], { TPU_SKIP_MDS_QUERY: "yes" })).toEqual({});
  });

  test.each(["0", "false", "False"])(
    "is the metadata server's to tell where the process does not skip it: %s",
    (skip) => {
      // libtpu skips it for any text but the empty one.
      expect(tpuVariables([], { TPU_SKIP_MDS_QUERY: skip })).toEqual({ TPU_SKIP_MDS_QUERY: "" });
      expect(tpuVariables(chips(1, V6E), { TPU_SKIP_MDS_QUERY: skip })).toEqual({ TPU_SKIP_MDS_QUERY: "" });
    },
  );
});

test("chips are known by the numbers of the PCI bus, and a network card of the same vendor is none", async () => {
  const bus = await mkdtemp(path.join(tmpdir(), "dlrm-pci-"));
  const devices = [
    ["0x1ae0", "0x006f"],
    ["0x1ae0", "0x0042"],
    ["0x10de", "0x006f"],
    ["0x1ae0", "0x0063"],
  ] as const;
  try {
    for (const [i, [vendor, device]] of devices.entries()) {
      const folder = path.join(bus, `0000:00:0${i}.0`);
      await mkdir(folder);
      await writeFile(path.join(folder, "vendor"), `${vendor}\n`);
      await writeFile(path.join(folder, "device"), `${device}\n`);
    }
    await mkdir(path.join(bus, "0000:00:09.0"));
    expect(readTpuChips(bus)).toEqual([V6E, V5E]);
    expect(readTpuChips(path.join(bus, "missing"))).toEqual([]);
  } finally {
    await rm(bus, { recursive: true });
  }
});
