import path from "node:path";
import { fileURLToPath } from "node:url";
import { ensurePythonEnvironment, findPython } from "@dlrm/arm-py";

const root = path.resolve(fileURLToPath(import.meta.url), "../..");

/**
 * Vitest global setup: tests that need Python find its interpreter, with the pinned packages, in `DLRM_PYTHON`. Without
 * a usable Python the variable stays unset and those tests are skipped, except in CI, where that is an error.
 */
export default async function setup(): Promise<void> {
  if (process.env["DLRM_PYTHON"]) {
    return;
  }
  const search = findPython();
  if (!search.found) {
    const message = `no Python for tests: need ${search.missing}`;
    if (process.env["CI"]) {
      throw new Error(message);
    }
    console.error(`${message}; tests that need it are skipped`);
    return;
  }
  const { python } = await ensurePythonEnvironment({
    cacheDir: path.join(root, "node_modules/.cache/dlrm-python"),
    extras: ["test"],
    report: (line) => console.error(`python for tests: ${line}`),
  });
  process.env["DLRM_PYTHON"] = python;
}
