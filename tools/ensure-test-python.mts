/**
 * Makes the Python environment of the tests if it isn't there, and prints its interpreter. Without a usable Python it prints nothing;
 * in CI that is an error.
 */
import path from "node:path";
import { ensurePythonEnvironment, findPython } from "@dlrm/arm-py";
import { root } from "./workspace.mts";

const search = findPython();
if (search.found) {
  const { python } = await ensurePythonEnvironment({
    cacheDir: path.join(root, "node_modules/.cache/dlrm-python"),
    extras: ["test"],
    report: (line) => console.error(`python for tests: ${line}`),
  });
  console.log(python);
} else {
  console.error(`no Python for tests: need ${search.missing}; tests that need it are skipped`);
  if (process.env["CI"]) process.exit(1);
}
