#!/usr/bin/env node
import { availableParallelism } from "node:os";
import v8 from "node:v8";
import { deferHelperThreads } from "./helper-threads.ts";
import { flagsFor } from "./one-cpu-flags.ts";

// A reader that ends first, such as head, or tee at Ctrl-C, or a terminal that is closed, is no reason to end.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

const cpus = availableParallelism();
for (const flag of flagsFor(cpus)) v8.setFlagsFromString(flag);
if (cpus === 1) deferHelperThreads();
// Only now: while the rest is loaded the young generation grows, and it keeps its size.
const { runServeCommand } = await import("./serve-command.ts");

// A device's thread or a half-open connection must not keep a process that has nothing left to do.
process.exit(await runServeCommand(process.argv.slice(2)));
