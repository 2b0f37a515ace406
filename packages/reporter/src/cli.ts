#!/usr/bin/env node
import { runCommand } from "./command.ts";

process.exitCode = runCommand({
  args: process.argv.slice(2),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
});
