#!/usr/bin/env node
import { openReference } from "@dlrm/model";
import { BENCH_ARMS } from "./bench-arms.ts";
import { prepareBundle } from "./bundle-step.ts";
import { BenchError } from "./bench-error.ts";
import { runCommand } from "./command.ts";
import { measureDenseNetwork } from "./dense-network-process.ts";
import { describeEnvironment, describeMachine } from "./environment.ts";
import { readMachine } from "./machine.ts";
import { measure } from "./measure.ts";
import { pinSelf } from "./pinning.ts";
import { Progress } from "./progress.ts";

// A reader that ends first, such as head, or tee at Ctrl-C, or a terminal that is closed, is no reason to end.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
});
// Progress is not worth a run, whatever it is that keeps it from being shown: the disk of its log may be full.
process.stderr.on("error", () => undefined);

const machine = readMachine();
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    // A second signal is meant: the guard's watcher kills what is left.
    if (stop.signal.aborted) process.exit(130);
    process.stderr.write(`\n${signal}: stopping; results so far are written. Again to stop at once.\n`);
    stop.abort(new BenchError("interrupted", `stopped by ${signal}`));
  });
}

process.exitCode = await runCommand({
  args: process.argv.slice(2),
  currentDir: process.cwd(),
  arms: BENCH_ARMS,
  machine,
  progress: new Progress(process.stderr),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  signal: stop.signal,
  dependencies: {
    measure,
    measureDenseNetwork,
    prepareBundle,
    openReference,
    describeMachine,
    describeEnvironment,
    leaveServerCpus: ({ clientCpus }) => pinSelf(clientCpus, machine.taskset),
    drainMs: 15_000,
  },
});
