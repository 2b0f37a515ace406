#!/usr/bin/env node
import { INTERRUPTED, runCommand } from "./command.ts";

process.exitCode = await runCommand(process.argv.slice(2));
// A connection that is still being made would keep the program waiting.
if (process.exitCode === INTERRUPTED) process.exit();
