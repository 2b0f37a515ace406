#!/usr/bin/env node
import { INTERRUPTED, runCommand } from "./command.ts";

// A reader that ends first, such as head, or tee at Ctrl-C, or a terminal that is closed, is no reason to end.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

process.exitCode = await runCommand(process.argv.slice(2));
// A connection that is still being made would keep the program waiting.
if (process.exitCode === INTERRUPTED) process.exit();
