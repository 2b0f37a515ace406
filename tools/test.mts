/** `npm test [-- --project NAME] [vitest arguments]`: all tests of the workspace, or those of one project. */
import { existsSync } from "node:fs";
import path from "node:path";
import { buildNativeParts, root, runOrExit } from "./workspace.mts";

const args = process.argv.slice(2);
const at = args.indexOf("--project");
if (at >= 0) {
  const [, project = ""] = args.splice(at, 2);
  const dir = project.startsWith("arm-") ? `packages/arms/${project.slice("arm-".length)}` : `packages/${project}`;
  if (project === "" || !existsSync(path.join(root, dir))) {
    console.error(
      `--project: expected the name of a project such as "model" or "arm-py", got ${JSON.stringify(project)}`,
    );
    process.exit(2);
  }
  // Files that are named say more than the project. A project of types alone has no tests, and none of them fails.
  if (!args.some((arg) => !arg.startsWith("-"))) args.push(`${dir}/`, "--passWithNoTests");
}
buildNativeParts();
runOrExit(process.execPath, [path.join(root, "node_modules/vitest/vitest.mjs"), "run", ...args]);
