import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const ENSURE = fileURLToPath(new URL("../../../tools/ensure-test-python.mts", import.meta.url));

/** An interpreter with JAX: `DLRM_PYTHON`, or the one of the workspace's tests, which is made if need be. Undefined without a Python. */
export function jaxPython(): string | undefined {
  const named = process.env["DLRM_PYTHON"];
  if (named) return named;
  const args = ["--conditions=@dlrm/source", ENSURE];
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return status === 0 ? stdout.trim() || undefined : undefined;
}
