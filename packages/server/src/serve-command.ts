import { setTimeout } from "node:timers/promises";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { type Logger, pino } from "pino";
import { type RunningServer, startServer } from "./server.ts";
import { ServerError } from "./server-error.ts";
import {
  BATCHING_POLICIES,
  DEVICE_NAMES,
  DEVICE_PRECISIONS,
  type DeviceName,
  isDeviceName,
  type ServerOptions,
  TRANSPORTS,
} from "./server-options.ts";
import { versionReport } from "./version-report.ts";

const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

const EXIT_FAILURE = 1;
const EXIT_USAGE = 2;
/** How long requests that were cut off may keep the device busy before the process ends without it, milliseconds. */
const DEVICE_CLOSE_TIMEOUT_MS = 5000;

interface Flags extends Omit<ServerOptions, "logger" | "device"> {
  readonly device: DeviceName;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  readonly version?: true;
}

/** `dlrm-serve`: serves until a signal ends it. Resolves with the exit code. */
export async function runServeCommand(args: readonly string[]): Promise<number> {
  const command = serveCommand();
  try {
    command.parse(args, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : EXIT_USAGE;
  }
  const flags = command.opts<Flags>();
  if (flags.version === true) {
    process.stdout.write(`${await versionReport()}\n`);
    return 0;
  }
  if (flags.bundle === undefined) return usageError(command, "required option '--bundle <dir>' not specified");
  // Written at once: a line that explains an end must be out before it.
  const logger = pino({ level: flags.logLevel, base: null }, pino.destination({ dest: 2, sync: true }));
  return await serve(command, flags, logger);
}

async function serve(command: Command, flags: Flags, logger: Logger): Promise<number> {
  let server: RunningServer | undefined;
  let exitCode = 0;
  let isListening = false;
  let stop: () => void = () => {};
  const stopped = new Promise<void>((resolve) => {
    stop = resolve;
  });
  const starting = new AbortController();

  const end = (code: number): void => {
    exitCode ||= code;
    starting.abort();
    stop();
  };
  let signalled = false;
  const onSignal = (signal: "SIGTERM" | "SIGINT"): void => {
    if (signalled) {
      logger.warn({ signal }, "second signal: ending at once");
      // As if nobody had caught it: an exit of our own would first stop the device's thread, which may be busy.
      process.off(signal, onSignal);
      process.kill(process.pid, signal);
      return;
    }
    signalled = true;
    logger.info({ signal }, server === undefined ? "signal: ending as soon as the device can be stopped" : "signal");
    end(0);
  };
  // State after an uncaught error is not known: answer what is in, then make room for a new process. A rejection that
  // nobody awaited has broken nothing that others depend on.
  const onUncaught = (error: unknown): void => {
    logger.fatal({ err: error }, "uncaught error: draining");
    end(EXIT_FAILURE);
  };
  const onRejection = (error: unknown): void => {
    logger.error({ err: error }, "unhandled rejection");
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  process.on("uncaughtException", onUncaught).on("unhandledRejection", onRejection);
  try {
    const { logLevel: _logLevel, version: _version, ...options } = flags;
    server = await startServer({
      ...options,
      logger,
      signal: starting.signal,
      onListening: () => {
        isListening = true;
      },
      onFatal: () => end(EXIT_FAILURE),
    });
    await stopped;
    const { unfinishedRequests } = await server.drain();
    if (unfinishedRequests > 0) {
      exitCode ||= EXIT_FAILURE;
      await Promise.race([server.close(), setTimeout(DEVICE_CLOSE_TIMEOUT_MS)]);
    }
  } catch (error) {
    if (starting.signal.aborted) return exitCode;
    if (error instanceof ServerError && error.code === "invalid_options") return usageError(command, error.message);
    const reason = error instanceof Error ? error.message : String(error);
    // Once there are log lines, this is one of them.
    if (isListening) logger.fatal({ reason }, "the server could not start");
    else process.stderr.write(`error: ${reason}\n`);
    logger.debug({ err: error }, "why the server could not start");
    return EXIT_FAILURE;
  } finally {
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    process.off("uncaughtException", onUncaught).off("unhandledRejection", onRejection);
  }
  return exitCode;
}

function usageError(command: Command, message: string): number {
  process.stderr.write(`error: ${message}\n\nRun ${command.name()} --help for the options.\n`);
  return EXIT_USAGE;
}

function serveCommand(): Command {
  return new Command("dlrm-serve")
    .description("Serves a DLRM-like ranking model over gRPC (h2c), gRPC-web and Connect on one port.")
    .option("--bundle <dir>", "directory of the model bundle (dlrm-model export makes one)")
    .option("--host <address>", "address to listen on; 0.0.0.0 or :: for all", "127.0.0.1")
    .option("--port <number>", "port; 0 lets the system choose, and the log says which", integer, 8500)
    .option(
      "--admin-port <number>",
      "port for /metrics, /healthz and /readyz; 0 lets the system choose (default: none)",
      integer,
    )
    .addOption(
      new Option("--transport <kind>", "what speaks HTTP/2: h2 is @dlrm/h2, node is node:http2")
        .choices(TRANSPORTS)
        .default("h2"),
    )
    .option("--frontends <n>", "threads with connections of their own (default: by the CPUs and the device)", integer)
    .addOption(
      new Option("--device <kind>", `what runs the dense network (${DEVICE_NAMES.join(", ")})`)
        .argParser(deviceName)
        .default("onnxruntime"),
    )
    .option("--device-threads <n>", "threads of the device; 0: the CPUs this process may use", integer, 0)
    .addOption(
      new Option("--device-precision <name>", "what the device computes in; the log says how exact it is")
        .choices(DEVICE_PRECISIONS)
        .default("float32"),
    )
    .option("--simulated-fixed-micros <µs>", "least time of a batch on the simulated device (default: 350)", decimal)
    .option("--simulated-micros-per-example <µs>", "what each example of a batch adds to it (default: 4)", decimal)
    .addOption(
      new Option("--batching <policy>", "when waiting requests become a batch")
        .choices(BATCHING_POLICIES)
        .default("adaptive"),
    )
    .option("--max-batch-size <examples>", "most examples run together (default: the bundle's largest bucket)", integer)
    .option("--batch-timeout-micros <µs>", "longest a request waits for others", integer, 1000)
    .option(
      "--max-in-flight-batches <n>",
      "batches gathered or run at one time (default: as many as the device works on)",
      integer,
    )
    .option(
      "--max-enqueued-examples <n>",
      "most examples that may wait; beyond it RESOURCE_EXHAUSTED (default: 4 × the larger of a batch and a request)",
      integer,
    )
    .option(
      "--max-enqueued-bytes <n>",
      "most bytes of ids and dense features that may wait, likewise (default: what the examples that may wait have)",
      integer,
    )
    .option(
      "--max-examples-per-request <n>",
      "most examples in one request (default: 4096, or a batch if that is larger)",
      integer,
    )
    .option(
      "--max-message-bytes <n>",
      "largest request message, also after decompression (default: fits the largest request as JSON)",
      integer,
    )
    .option(
      "--max-buffered-bytes <n>",
      "most bytes of messages in pieces or decompressed, in each frontend (default: 256 MiB, or 4 of the largest messages); " +
        "of gRPC messages come in part a connection of --transport h2 has 64 MiB, or one of the largest, in any case",
      integer,
    )
    .option("--max-connections <n>", "most connections at once", integer, 10_000)
    .option("--max-streams-per-connection <n>", "most calls that a connection may have open", integer, 1024)
    .option("--max-header-bytes <n>", "largest headers of a request", integer, 16_384)
    .option("--drain-timeout-ms <ms>", "how long SIGTERM and SIGINT wait for what is in", integer, 10_000)
    .addOption(new Option("--log-level <level>", "least level to log, to stderr").choices(LOG_LEVELS).default("info"))
    .option("-V, --version", "print versions, the gather kernel and the devices of this machine, and end")
    .helpOption("-h, --help", "print this help, and end")
    .exitOverride();
}

function deviceName(text: string): DeviceName {
  if (isDeviceName(text)) return text;
  throw new InvalidArgumentError(`Allowed choices are ${DEVICE_NAMES.join(", ")}.`);
}

function decimal(text: string): number {
  if (!/^\d+(?:\.\d+)?$/u.test(text)) throw new InvalidArgumentError("Expected a number, such as 350 or 0.5.");
  return Number(text);
}

/** Whether it is too large for its option is said by whoever checks the options. */
function integer(text: string): number {
  if (!/^\d+$/u.test(text)) throw new InvalidArgumentError("Expected a whole number, such as 16.");
  return Number(text);
}
