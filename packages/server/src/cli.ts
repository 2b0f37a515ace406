#!/usr/bin/env node
import { availableParallelism } from "node:os";
import v8 from "node:v8";
import { flagsFor } from "./one-cpu-flags.ts";
import { runServeCommand } from "./serve-command.ts";

for (const flag of flagsFor(availableParallelism())) v8.setFlagsFromString(flag);

// A device's thread or a half-open connection must not keep a process that has nothing left to do.
process.exit(await runServeCommand(process.argv.slice(2)));
