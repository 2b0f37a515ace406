#!/usr/bin/env node
import { existsSync } from "node:fs";

// A file that is there before anything is built: npm links no command to one that isn't.
const cli = new URL("../dist/cli.js", import.meta.url);
if (existsSync(cli)) {
  await import(cli.href);
} else {
  console.error("dlrm-model is not built yet: run `npm run build` in the checkout first");
  process.exitCode = 1;
}
