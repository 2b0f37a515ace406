import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Vitest global setup: tests that need Python find its interpreter, with the pinned packages, in `DLRM_PYTHON`. Without
 * a usable Python the variable stays unset and those tests are skipped, except in CI, where that is an error.
 */
export default function setup(): void {
  if (process.env["DLRM_PYTHON"]) {
    return;
  }
  // A process of its own: Vitest resolves packages of a setup to what is built, and nothing needs to be.
  const file = path.join(path.dirname(fileURLToPath(import.meta.url)), "ensure-test-python.mts");
  const { status, stdout } = spawnSync(process.execPath, ["--conditions=@dlrm/source", file], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) {
    throw new Error("no Python environment for tests: the lines above say why");
  }
  const python = stdout.trim();
  if (python !== "") {
    process.env["DLRM_PYTHON"] = python;
  }
}
