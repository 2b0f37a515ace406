/** The arm's server: `node serve-process.js --bundle DIR [--host H] [--port P] [--platform P] [--num-threads N] [--max-batch-size N]`. */
import { parseArgs } from "node:util";
import { NodeServer, type NodeServerOptions } from "./node-server.ts";

const DRAIN_TIMEOUT_MS = 10_000;
/** For what is left after the drain: the device. */
const END_TIMEOUT_MS = 2000;

function log(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Says what is wrong, and ends with code 2. */
function usage(problem: string): never {
  log(`error: ${problem}`);
  process.exit(2);
}

function readOptions(): NodeServerOptions {
  const { values } = parseArgs({
    options: {
      bundle: { type: "string" },
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "8500" },
      platform: { type: "string", default: "cpu" },
      "num-threads": { type: "string", default: "0" },
      "max-batch-size": { type: "string", default: "4096" },
    },
  });
  const integer = (name: "port" | "num-threads" | "max-batch-size", low: number, high: number): number => {
    const value = Number(values[name]);
    if (Number.isInteger(value) && value >= low && value <= high) return value;
    return usage(`--${name}: expected an integer from ${low} to ${high}, got ${JSON.stringify(values[name])}`);
  };
  const { bundle, host, platform } = values;
  if (bundle === undefined) return usage("--bundle: expected the directory of a model bundle, got none");
  if (platform !== "cpu" && platform !== "cuda" && platform !== "sim") {
    return usage(`--platform: expected cpu, cuda or sim, got ${JSON.stringify(platform)}`);
  }
  return {
    bundle,
    host,
    port: integer("port", 0, 65_535),
    platform,
    numThreads: integer("num-threads", 0, 1024),
    maxBatchSize: integer("max-batch-size", 1, 1 << 20),
    log,
  };
}

function tryReadOptions(): NodeServerOptions {
  try {
    return readOptions();
  } catch (error) {
    return usage((error as Error).message);
  }
}

const options = tryReadOptions();
const stopped = new Promise<string>((resolve) => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve(signal));
});
try {
  const server = await NodeServer.listen(options);
  const loaded = await Promise.race([server.load().then(() => true), stopped.then(() => false)]);
  if (loaded) {
    log(`serving ${options.bundle} on ${options.host}:${server.port}`);
    const signal = await Promise.race([stopped, server.failed]);
    log(`${signal}: draining`);
    setTimeout(() => {
      log("error: what was in did not end in time");
      process.exit(1);
    }, DRAIN_TIMEOUT_MS + END_TIMEOUT_MS).unref();
    await server.drain(DRAIN_TIMEOUT_MS);
  }
  process.exit(0);
} catch (error) {
  log(`error: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}
