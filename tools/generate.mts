/**
 * `npm run generate`: everything that is generated and committed.
 * `--check` fails if what is committed is not what would be generated, or if the protocol breaks its released form.
 * `--accept-breaking` makes today's protocol the released form.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { root, runOrExit } from "./workspace.mts";

const released = "tools/proto-released.binpb";
const generated = ["packages/proto/src/gen", "packages/arms/py/python/dlrm_py/gen"];
const flags = new Set(process.argv.slice(2));

runOrExit("buf", ["lint"]);
runOrExit("buf", ["generate"]);
const python = path.join(root, "packages/arms/py/generate.mts");
if (existsSync(python)) runOrExit(process.execPath, [python]);

if (flags.has("--accept-breaking")) runOrExit("buf", ["build", "-o", released]);
if (flags.has("--check")) {
  runOrExit("buf", ["format", "-d", "--exit-code"]);
  runOrExit("buf", ["breaking", "--against", released]);
  const changed = execFileSync("git", ["status", "--porcelain", "--", ...generated], { cwd: root, encoding: "utf8" });
  if (changed !== "") {
    console.error(`generated code is not in step with its sources; run "npm run generate" and commit:\n${changed}`);
    process.exit(1);
  }
}
