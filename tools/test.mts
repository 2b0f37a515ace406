/** `npm test [-- --project NAME] [vitest arguments]`: all tests of the workspace, or those of one project. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import path from "node:path";

const root = path.resolve(fileURLToPath(import.meta.url), "../..");
const args = process.argv.slice(2);
const at = args.indexOf("--project");
if (at >= 0) {
  const [, project = ""] = args.splice(at, 2);
  const folder = project.startsWith("arm-") ? `packages/arms/${project.slice(4)}` : `packages/${project}`;
  if (!existsSync(path.join(root, folder))) {
    console.error(`unknown project ${JSON.stringify(project)}: no folder ${folder}`);
    process.exit(2);
  }
  args.push("--dir", folder);
}
const vitest = path.join(root, "node_modules/vitest/vitest.mjs");
const { status } = spawnSync(process.execPath, [vitest, "run", ...args], { cwd: root, stdio: "inherit" });
process.exit(status ?? 1);
