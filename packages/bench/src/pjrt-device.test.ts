import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { validateSummary } from "@dlrm/reporter";
import { expect, test } from "vitest";

const CLI = fileURLToPath(new URL("./cli.ts", import.meta.url));
/** XLA's CPU plugin has the interface of libtpu: all but the call of the chip is what happens on a TPU. */
const PLUGIN = path.join(
  import.meta.dirname,
  "../../../node_modules/.cache/dlrm-pjrt/lammps-jax-pjrt-cpu-0.11.2/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
);
const missing = existsSync(PLUGIN) ? "" : " (skipped: needs node packages/accelerator/native/fetch-test-plugins.mts)";

test.skipIf(missing !== "")(
  `a run on the platform tpu, with a CPU plugin in libtpu's place, has parity and a report${missing}`,
  async () => {
    const workDir = mkdtempSync(path.join(tmpdir(), "bench-tpu-"));
    try {
      const flags =
        "--platform tpu --arms engine --preset dcnv2-lite --max_vocab_size 50 --max_batch_size 4 " +
        "--request_batch_sizes 3 --concurrencies 2 --duration 0.3 --warmup 0 --repeats 1 --open_loop off";
      const args = ["--conditions=@dlrm/source", CLI, ...flags.split(" "), "--device", `pjrt:${PLUGIN}`];
      const child = spawn(process.execPath, [...args, "--work_dir", workDir], { stdio: ["ignore", "ignore", "pipe"] });
      const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "close") as Promise<[number]>]);
      // Together, so that a failure shows what was said.
      expect({ code, stderr }).toMatchObject({ code: 0 });
      const results = path.join(workDir, "results");
      const summary = validateSummary(JSON.parse(readFileSync(path.join(results, "summary.json"), "utf8")));
      expect(summary).toMatchObject({ platform: "tpu", simulatedAccelerator: false });
      expect(summary.arms?.map(({ arm, status }) => [arm, status])).toEqual([["engine", "ok"]]);
      expect(summary.parity.map(({ bReq, ok }) => [bReq, ok])).toEqual([[3, true]]);
      expect(summary.points.map(({ bReq, errors }) => [bReq, errors])).toEqual([[3, {}]]);
      expect(existsSync(path.join(results, "REPORT.md"))).toBe(true);
    } finally {
      rmSync(workDir, { recursive: true, force: true });
    }
  },
  300_000,
);
