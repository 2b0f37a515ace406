import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";
import { loadPjrtNative } from "./pjrt-native.ts";
import { defaultProbeTimeoutMs, findPjrtDevice, probePjrtPlugin } from "./pjrt-probe.ts";

const missing = [
  ...("whyNot" in loadPjrtNative() ? ["the PJRT binding (node native/build.mts)"] : []),
  ...(spawnSync("cc", ["--version"]).error ? ["a C compiler"] : []),
].join(", ");
const because = missing === "" ? "" : ` (skipped: needs ${missing})`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "dlrm-pjrt-probe-"));
});
afterAll(() => rm(folder, { recursive: true }));

const HEADER = path.join(import.meta.dirname, "../native/pjrt/pjrt_c_api.h");

/** A plugin written for a test: `body` is what GetPjrtApi does, of an API whose initialization does `initialize`. */
async function pluginOf(
  name: string,
  { version = [0, 81], size = "PJRT_Api_STRUCT_SIZE", initialize = "return 0;" },
): Promise<string> {
  const source = path.join(folder, `${name}.c`);
  const library = path.join(folder, `${name}.so`);
  await writeFile(
    source,
    `#include "${HEADER}"
     #include <signal.h>
     #include <stdlib.h>
     #include <unistd.h>
     static PJRT_Error* initialize(PJRT_Plugin_Initialize_Args* args) { ${initialize} }
     static PJRT_Api api;
     const PJRT_Api* GetPjrtApi(void) {
       api.struct_size = ${size};
       api.pjrt_api_version.major_version = ${version[0]};
       api.pjrt_api_version.minor_version = ${version[1]};
       api.PJRT_Plugin_Initialize = initialize;
       return &api;
     }`,
  );
  const { status, stderr } = spawnSync("cc", ["-shared", "-fPIC", "-o", library, source], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return library;
}

function ask(pluginPath: string, options: { timeoutMs?: number; signal?: AbortSignal } = {}) {
  return probePjrtPlugin({ pluginPath, createOptions: {}, environment: {} }, { timeoutMs: 60_000, ...options });
}

describe.concurrent("asking a plugin in a child process", () => {
  test.skipIf(missing !== "")(`one that blocks is given up when the time is over${because}`, async () => {
    const plugin = await pluginOf("blocks", {
      initialize: 'write(2, "asking the metadata server\\n", 27); for (;;) pause();',
    });
    // Long enough for the child to have come that far when the machine is busy is not needed: it never answers.
    await expect(ask(plugin, { timeoutMs: 1 })).rejects.toMatchObject({
      code: "provider_unavailable",
      message: expect.stringMatching(
        /blocks\.so found no device within probeTimeoutMs, 1 ms, and was given up/,
      ) as unknown,
    });
  });

  test.skipIf(missing !== "")(`what stands in for libtpu is given up in time of its own accord${because}`, async () => {
    const plugin = await pluginOf("libtpu", { initialize: "for (;;) pause();" });
    await expect(findPjrtDevice(plugin)).rejects.toMatchObject({
      code: "provider_unavailable",
      message: `${plugin} found no device within probeTimeoutMs, 4500 ms, and was given up: set TPU_SKIP_MDS_QUERY=1 if the metadata server does not answer`,
    });
  });

  test.skipIf(missing !== "")(
    `one that ends its process ends only the child, and its last words are told${because}`,
    async () => {
      const plugin = await pluginOf("aborts", { initialize: 'write(2, "F0000 no such thing\\n", 20); abort();' });
      await expect(ask(plugin)).rejects.toMatchObject({
        code: "provider_unavailable",
        message: `${plugin} ended its process: it was ended by SIGABRT; its last words: F0000 no such thing`,
      });
    },
  );

  test.skipIf(missing !== "")(`one that is killed ends only the child${because}`, async () => {
    const plugin = await pluginOf("killed", { initialize: "kill(getpid(), SIGKILL); return 0;" });
    await expect(ask(plugin)).rejects.toMatchObject({
      code: "provider_unavailable",
      message: `${plugin} ended its process: it was ended by SIGKILL`,
    });
  });

  test.skipIf(missing !== "")(`one that blocks is given up when the signal says so${because}`, async () => {
    const plugin = await pluginOf("waits", { initialize: "for (;;) pause();" });
    const controller = new AbortController();
    const asking = ask(plugin, { signal: controller.signal });
    controller.abort(new Error("no more"));
    await expect(asking).rejects.toMatchObject({ code: "cancelled", cause: { message: "no more" } });
    await expect(ask(plugin, { signal: controller.signal })).rejects.toMatchObject({ code: "cancelled" });
  });

  test.skipIf(missing !== "").each<[string, Parameters<typeof pluginOf>[1], RegExp]>([
    [
      "an older API",
      { version: [0, 80] },
      /has version 0\.80 of the PJRT API; 0\.81 or a later minor version is needed$/,
    ],
    ["another major version", { version: [1, 0] }, /has version 1\.0 of the PJRT API; 0\.81 or a later/],
    ["a short table of functions", { size: "100" }, /has a table of functions of 100 bytes; \d+ are needed$/],
  ])(`one of %s is refused before it is used${because}`, async (name, change, message) => {
    const plugin = await pluginOf(name.replaceAll(" ", "-"), { ...change, initialize: "abort();" });
    await expect(ask(plugin)).rejects.toMatchObject({
      code: "plugin_invalid",
      message: expect.stringMatching(message) as unknown,
    });
  });

  test.skipIf(missing !== "")(`a library that is no plugin, and a missing one, are told apart${because}`, async () => {
    const source = path.join(folder, "other.c");
    await writeFile(source, "int x;");
    const library = path.join(folder, "other.so");
    spawnSync("cc", ["-shared", "-fPIC", "-o", library, source]);
    await expect(ask(library)).rejects.toMatchObject({
      code: "plugin_invalid",
      message: `can't open a device of ${library}: ${library} exports no GetPjrtApi: it is no PJRT plugin`,
    });
    await expect(ask(`${library}.1`)).rejects.toMatchObject({
      code: "plugin_not_found",
      message: `can't open a device of ${library}.1: no file ${library}.1`,
    });
  });
});

test("libtpu on a machine without a TPU has less than five seconds, other plugins and machines a minute", () => {
  expect(defaultProbeTimeoutMs("/packages/libtpu/libtpu.so", () => [])).toBe(4500);
  expect(defaultProbeTimeoutMs("/packages/libtpu/libtpu.so", () => ["0x006f"])).toBe(60_000);
  expect(defaultProbeTimeoutMs("/packages/xla_cuda_plugin.so", () => [])).toBe(60_000);
});

describe.each(TEST_PLUGINS)("$name", (plugin) => {
  const lacking = whatIsMissing(plugin);
  test.skipIf(lacking !== undefined)(
    `says what its device is, and does not stay in this process${lacking === undefined ? "" : ` (skipped: needs ${lacking})`}`,
    async () => {
      const found = await findPjrtDevice(plugin.pluginPath);
      expect(found).toMatchObject({ platform: "cpu", deviceKind: "cpu", apiVersion: plugin.apiVersion });
      expect(await readFile("/proc/self/maps", "utf8")).not.toContain(plugin.pluginPath);
    },
  );
});
