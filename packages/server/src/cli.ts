#!/usr/bin/env node
import { runServeCommand } from "./serve-command.ts";

// A device's thread or a half-open connection must not keep a process that has nothing left to do.
process.exit(await runServeCommand(process.argv.slice(2)));
