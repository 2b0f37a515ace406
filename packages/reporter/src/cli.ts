#!/usr/bin/env node
import { runCommand } from "./command.ts";

// A reader that ends first, such as head, or tee at Ctrl-C, or a terminal that is closed, is no reason to end.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

process.exitCode = runCommand({
  args: process.argv.slice(2),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
});
