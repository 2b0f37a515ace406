/**
 * `node packages/arms/py/generate.mts`: the Python messages of `proto/`, made again by the pinned protoc of the test
 * environment. CI runs it and fails when a tracked file changes.
 */
import { spawnSync } from "node:child_process";
import { rm, mkdir } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ensurePythonEnvironment } from "./src/python-environment.ts";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../../..");
const out = path.join(here, "python/dlrm_py/gen");
const { python } = await ensurePythonEnvironment({
  cacheDir: path.join(root, "node_modules/.cache/dlrm-python"),
  extras: ["test"],
  report: (line) => console.error(line),
});
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const { status } = spawnSync(
  python,
  [
    "-I",
    "-m",
    "grpc_tools.protoc",
    `--proto_path=${path.join(root, "proto")}`,
    `--python_out=${out}`,
    `--pyi_out=${out}`,
    "dlrm/serving/v1/prediction.proto",
  ],
  { stdio: "inherit" },
);
process.exitCode = status ?? 1;
