import { expect, test } from "vitest";
import { pluginEnvironment } from "./plugin-environment.ts";

const TPU = "/env/site-packages/libtpu/libtpu.so";
const CPU = "/env/pjrt_c_api_cpu_plugin.so";

test("only libtpu gets the variables of a TPU, and every plugin the number of threads", () => {
  expect(pluginEnvironment(TPU, undefined, {}, () => [])).toEqual({ TPU_SKIP_MDS_QUERY: "1" });
  expect(pluginEnvironment(TPU, 2, {}, () => ["0x006f"])).toMatchObject({
    PJRT_NPROC: "2",
    TPU_ACCELERATOR_TYPE: "v6e-1",
  });
  expect(pluginEnvironment(CPU, undefined, {}, () => ["0x006f"])).toEqual({});
  expect(pluginEnvironment(CPU, 3, {}, () => [])).toEqual({ PJRT_NPROC: "3" });
});
