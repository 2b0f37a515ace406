/** `npm run bench [-- flags of dlrm-bench]`: builds what is missing, then runs the benchmark; the CPU smoke run by default. */
import path from "node:path";
import { buildNativeParts, root, runOrExit } from "./workspace.mts";

buildNativeParts();
runOrExit("tsc", ["-b"]);
const flags = process.argv.slice(2);
const cli = path.join(root, "packages/bench/dist/cli.js");
runOrExit(process.execPath, [cli, ...(flags.length === 0 ? ["--smoke"] : flags)]);
