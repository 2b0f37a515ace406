#!/usr/bin/env node
import { availableParallelism } from "node:os";
import v8 from "node:v8";
import { flagsFor } from "./one-cpu-flags.ts";

for (const flag of flagsFor(availableParallelism())) v8.setFlagsFromString(flag);
// A reader that ends first, such as head, or tee at Ctrl-C, or a terminal that is closed, is no reason to end.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

// Only now: while the rest is loaded the young generation grows, and it keeps its size.
const { runServeCommand } = await import("./serve-command.ts");

// A device's thread or a half-open connection must not keep a process that has nothing left to do.
process.exit(await runServeCommand(process.argv.slice(2)));
