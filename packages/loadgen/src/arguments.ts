import { readFileSync } from "node:fs";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { messageOf } from "./load-error.ts";
import { type LoadOptions, type ModelShape, settingProblems } from "./load-options.ts";
import { MLPERF_SERVER_P99_MS } from "./scenario.ts";

/** What the command line asks for; `over` where commander has already said all there is to say. */
export type ParsedArgs =
  | { readonly kind: "over"; readonly exitCode: number }
  | {
      readonly kind: "run";
      readonly options: Omit<LoadOptions, "shape">;
      /** From `--shape`; undefined means that the server is asked. */
      readonly shape: ModelShape | undefined;
      /** File for the result as JSON; undefined means stdout. */
      readonly output: string | undefined;
    };

interface Flags {
  readonly concurrency: number;
  readonly rate?: number;
  readonly scenario?: "mlperf-server";
  readonly requestSize: number;
  readonly connections: number;
  readonly processes?: number;
  readonly warmup: number;
  readonly duration: number;
  readonly seed: number;
  readonly idDistribution: LoadOptions["idDistribution"];
  readonly model: string;
  readonly shape?: ModelShape;
  readonly idType?: "int32" | "int64";
  readonly cpus?: string;
  readonly transport: "h2" | "node";
  readonly poolExamples: number;
  readonly maxInFlight: number;
  readonly deadline?: number;
  readonly drain: number;
  readonly output?: string;
}

/** Reads the command line; says on stderr what is wrong with it. */
export function parseArgs(argv: readonly string[]): ParsedArgs {
  const command = makeCommand();
  try {
    command.parse(argv, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { kind: "over", exitCode: error.exitCode === 0 ? 0 : 2 };
  }
  const [server] = command.processedArgs as [{ host: string; port: number }];
  const flags = command.opts<Flags>();
  if (flags.scenario !== undefined && flags.rate === undefined) {
    console.error(
      "error: option '--scenario mlperf-server' needs '--rate <requests/s>', the samples a second to offer",
    );
    return { kind: "over", exitCode: 2 };
  }
  const options: Omit<LoadOptions, "shape"> = {
    ...server,
    model: flags.model,
    requestSize: flags.scenario === undefined ? flags.requestSize : "mlperf",
    mode:
      flags.rate === undefined
        ? { kind: "closed", concurrency: flags.concurrency }
        : { kind: "open", offeredRps: flags.rate },
    connections: flags.connections,
    ...(flags.processes === undefined ? {} : { processes: flags.processes }),
    warmupS: flags.warmup,
    durationS: flags.duration,
    seed: flags.seed,
    idDistribution: flags.idDistribution ?? "uniform",
    ...(flags.idType === undefined ? {} : { idType: flags.idType }),
    ...(flags.cpus === undefined ? {} : { cpus: flags.cpus }),
    transport: flags.transport,
    poolExamples: flags.poolExamples,
    maxInFlight: flags.maxInFlight,
    ...(flags.deadline === undefined ? {} : { deadlineMs: flags.deadline }),
    drainS: flags.drain,
  };
  // Before anything is asked of the server: it may not be there, and that would be all that is said.
  const problems = settingProblems(options);
  if (problems.length > 0) {
    console.error(`error: ${problems.map(byFlag).join("\n       ")}`);
    return { kind: "over", exitCode: 2 };
  }
  return { kind: "run", options, shape: flags.shape, output: flags.output };
}

/** How the command line calls the options of the library whose values it does not check itself. */
const FLAG_OF_OPTION = new Map([
  ["port", "the port of <host:port>"],
  ["requestSize", "--request-size"],
  ["mode.concurrency", "--concurrency"],
  ["mode.offeredRps", "--rate"],
  ["connections", "--connections"],
  ["processes", "--processes"],
  ["warmupS", "--warmup"],
  ["durationS", "--duration"],
  ["seed", "--seed"],
  ["idDistribution.zipf", "the exponent of --id-distribution"],
  ["cpus", "--cpus"],
  ["poolExamples", "--pool-examples"],
  ["maxInFlight", "--max-in-flight"],
  ["deadlineMs", "--deadline"],
  ["drainS", "--drain"],
]);

/** A problem of an option, which begins with its name, by the flag that sets it. */
function byFlag(problem: string): string {
  return problem.replace(/^[\w.]+/u, (option) => FLAG_OF_OPTION.get(option) ?? option);
}

function makeCommand(): Command {
  return new Command("dlrm-loadgen")
    .description(
      "Loads a server of dlrm.serving.v1.PredictionService over gRPC (plaintext HTTP/2) and measures it.\n" +
        "Progress goes to stderr, the result goes to stdout as JSON.",
    )
    .version(packageVersion())
    .argument("<host:port>", "address of the server", address)
    .addOption(
      new Option("-c, --concurrency <callers>", "closed loop: callers, each with one request outstanding")
        .argParser(number)
        .default(1),
    )
    .addOption(
      new Option("-r, --rate <requests/s>", "open loop: Poisson arrivals at this mean rate")
        .argParser(number)
        .conflicts("concurrency"),
    )
    .addOption(
      new Option(
        "--scenario <name>",
        `mlperf-server: samples of 100 to 700 examples by MLPerf's published sizes (mean 270) at --rate, p99 within ${MLPERF_SERVER_P99_MS} ms`,
      )
        .choices(["mlperf-server"])
        .conflicts(["concurrency", "requestSize"]),
    )
    .option("-b, --request-size <examples>", "examples in a request", number, 1)
    .option("-d, --duration <seconds>", "length of the measured window", number, 10)
    .option("-w, --warmup <seconds>", "load before the measured window", number, 2)
    .option("--connections <count>", "persistent connections over all processes", number, 64)
    .option("--processes <count>", "load processes (default: one a CPU, at most 8)", number)
    .option("--cpus <list>", "CPUs of the load processes, such as 1 or 0-3,8 (needs taskset)")
    .option("--seed <integer>", "seed of ids, dense features and the schedule", number, 1)
    .option(
      "--id-distribution <uniform|zipf:S>",
      "how ids are drawn, S being Zipf's exponent",
      idDistribution,
      "uniform",
    )
    .option("--model <name>", "model to ask for (default: the server's only one)", "")
    .option("--shape <file>", "JSON file with the model's shape (default: ask the server, GetModelMetadata)", shapeFile)
    .addOption(
      new Option("--id-type <type>", "element type of ids (default: what the server takes)").choices([
        "int32",
        "int64",
      ]),
    )
    .addOption(new Option("--transport <client>", "HTTP/2 client").choices(["h2", "node"]).default("h2"))
    .option("--pool-examples <count>", "different examples made before the run", number, 16_384)
    .option(
      "--max-in-flight <requests>",
      "open loop: outstanding requests above which sends are dropped",
      number,
      10_000,
    )
    .option("--deadline <ms>", "deadline sent with each request (default: none)", number)
    .option("--drain <seconds>", "time to wait for the window's last answers", number, 10)
    .option("-o, --output <file>", "write the result here instead of to stdout")
    .addHelpText("after", EXAMPLES)
    .allowExcessArguments(false)
    .exitOverride();
}

const EXAMPLES = `
Examples:
  dlrm-loadgen 127.0.0.1:8500 -c 16 -b 16 -d 20          16 callers, 16 examples a request
  dlrm-loadgen 127.0.0.1:8500 --rate 2000 --cpus 1       2,000 requests/s, load generator on CPU 1
  dlrm-loadgen 127.0.0.1:8500 --id-distribution zipf:1.05
  dlrm-loadgen 127.0.0.1:8500 --scenario mlperf-server --rate 50 -d 60

Exit codes: 0 valid run, 1 failed or INVALID run, or a scenario that is not passed, 2 wrong usage, 130 interrupted.`;

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

function number(text: string): number {
  if (!/^-?\d+(?:_\d+)*(?:\.\d+)?$/.test(text)) {
    throw new InvalidArgumentError("Expected a number, such as 0.5, 1000 or 1_000.");
  }
  return Number(text.replaceAll("_", ""));
}

function address(text: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) throw new InvalidArgumentError("Expected host:port, such as 127.0.0.1:8500 or [::1]:8500.");
  return { host, port: Number(match?.[3]) };
}

function idDistribution(text: string): LoadOptions["idDistribution"] {
  if (text === "uniform") return "uniform";
  const exponent = /^zipf:(\d+(?:\.\d+)?)$/.exec(text)?.[1];
  if (exponent === undefined) throw new InvalidArgumentError("Expected uniform or zipf:S, such as zipf:1.05.");
  return { zipf: Number(exponent) };
}

function shapeFile(file: string): ModelShape {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as ModelShape;
  } catch (error) {
    throw new InvalidArgumentError(`Cannot read it as JSON: ${messageOf(error)}`);
  }
}
