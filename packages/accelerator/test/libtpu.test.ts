import { afterEach, describe, expect, test, vi } from "vitest";
import { findPjrtDevice } from "@dlrm/accelerator";
import { readTpuChips } from "../src/tpu-topology.ts";
import { LIBTPU, whatIsMissing } from "./test-plugins.ts";

const missing =
  readTpuChips().length > 0
    ? "a machine without a TPU"
    : whatIsMissing(LIBTPU) && "the binding, and libtpu (node native/fetch-test-plugins.mts --libtpu)";
const because = missing === undefined ? "" : ` (skipped: needs ${missing})`;

afterEach(() => {
  vi.unstubAllEnvs();
});

describe("libtpu on a machine without a TPU", () => {
  test.skipIf(missing !== undefined)(
    `says so itself, for it does not look for the metadata server${because}`,
    async () => {
      vi.stubEnv("TPU_SKIP_MDS_QUERY", undefined);
      vi.stubEnv("GCE_METADATA_HOST", "192.0.2.1");
      await expect(findPjrtDevice(LIBTPU.pluginPath)).rejects.toMatchObject({
        code: "provider_unavailable",
        message: `can't open a device of ${LIBTPU.pluginPath}: the plugin has no device: TPU initialization failed: No jellyfish device found.`,
      });
    },
  );

  test.skipIf(missing !== undefined)(
    `is given up when the metadata server that it was told to ask does not answer${because}`,
    async () => {
      vi.stubEnv("TPU_SKIP_MDS_QUERY", "0");
      // An address that belongs to nobody.
      vi.stubEnv("GCE_METADATA_HOST", "192.0.2.1");
      await expect(findPjrtDevice(LIBTPU.pluginPath)).rejects.toMatchObject({
        code: "provider_unavailable",
        message: `${LIBTPU.pluginPath} found no device within probeTimeoutMs, 4500 ms, and was given up: set TPU_SKIP_MDS_QUERY=1 if the metadata server does not answer`,
      });
    },
  );
});
