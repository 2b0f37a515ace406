import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { countTpuChips, pluginEnvironment } from "./plugin-environment.ts";

const TPU = "/env/site-packages/libtpu/libtpu.so";
const CPU = "/env/pjrt_c_api_cpu_plugin.so";
const [chip, noChip] = [() => true, () => false];

test("libtpu is told not to ask the metadata server where there is no TPU, unless the variable is set", () => {
  expect(pluginEnvironment(TPU, undefined, {}, noChip)).toEqual({ TPU_SKIP_MDS_QUERY: "1" });
  expect(pluginEnvironment(TPU, undefined, {}, chip)).toEqual({});
  expect(pluginEnvironment(TPU, undefined, { TPU_SKIP_MDS_QUERY: "0" }, noChip)).toEqual({});
  expect(pluginEnvironment(CPU, undefined, {}, noChip)).toEqual({});
  expect(pluginEnvironment(CPU, 3, {}, noChip)).toEqual({ PJRT_NPROC: "3" });
});

test("chips are counted by the numbers of the PCI bus, and a network card of the same vendor is none", async () => {
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
    expect(countTpuChips(bus)).toBe(2);
    expect(countTpuChips(path.join(bus, "missing"))).toBe(0);
  } finally {
    await rm(bus, { recursive: true });
  }
});
