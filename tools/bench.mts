/**
 * `npm run bench [-- flags of dlrm-bench]`: builds what is missing, then runs the benchmark: the CPU smoke run
 * (with other settings if flags say so), unless they name a platform, a preset or a run to take up again.
 */
import path from "node:path";
import { buildNativeParts, root, runOrExit } from "./workspace.mts";

buildNativeParts();
runOrExit("tsc", ["-b"]);
const flags = process.argv.slice(2);
const cli = path.join(root, "packages/bench/dist/cli.js");
const named = flags.some((flag) => /^--(?:platform|preset|resume|help|version|smoke)(?:$|=)/u.test(flag));
runOrExit(process.execPath, [cli, ...(named ? [] : ["--smoke"]), ...flags]);
