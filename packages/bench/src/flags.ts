/** A flag of the command: `--name <argument>`, or a switch without argument. */
export interface Flag {
  /** With underscores; the command takes hyphens as well. */
  readonly name: string;
  /** Placeholder of the argument; a switch has none. */
  readonly argument?: string;
  readonly help: string;
}

/** Values as given, before any check. */
export type FlagValues = Readonly<Record<string, string | boolean | undefined>>;

export const FLAGS: readonly Flag[] = [
  { name: "platform", argument: "name", help: "cpu, cuda, tpu or sim (simulated accelerator); default cpu" },
  { name: "preset", argument: "name", help: "model: default dcnv2-lite on cpu, dcnv2-6m elsewhere" },
  { name: "max_vocab_size", argument: "rows", help: "cap on the rows of each table; default the preset's" },
  { name: "arms", argument: "list", help: "servers to measure, comma-separated; default all that run on the platform" },
  { name: "request_batch_sizes", argument: "list", help: "examples in a request (B_req); default 1,16,128" },
  { name: "concurrencies", argument: "list", help: "closed-loop callers (C); default 1,4,16,64" },
  { name: "duration", argument: "seconds", help: "measured time of a point; default 10" },
  { name: "warmup", argument: "seconds", help: "load before the measured time; default 2" },
  { name: "repeats", argument: "count", help: "measurements of every point, arms alternating; default 3" },
  {
    name: "open_loop",
    argument: "on|off",
    help: "Poisson load at 50 and 80 % of each arm's peak after its closed loop; default on, off with --smoke",
  },
  {
    name: "device",
    argument: "name",
    help: "what runs the dense network of the engine's arms, as dlrm-serve --device has it, such as pjrt:/path/of/plugin.so; default the platform's",
  },
  { name: "connections", argument: "count", help: "connections of the load generator; default 64" },
  { name: "server_cpus", argument: "list", help: "CPUs of the server, as in 0-3,8; default the first half" },
  { name: "client_cpus", argument: "list", help: "CPUs of the load generator; default the second half" },
  { name: "num_threads", argument: "count", help: "threads of the dense network; default 0, one a CPU" },
  {
    name: "num_processes",
    argument: "count",
    help: "processes of a multi-process server; default one a server CPU, at most 8",
  },
  {
    name: "client_processes",
    argument: "count",
    help: "processes of the load generator; default one a client CPU, at most 8",
  },
  { name: "max_batch_size", argument: "examples", help: "largest batch of the device; default 4096" },
  { name: "id_distribution", argument: "name", help: "uniform or zipf:<exponent>; default uniform" },
  { name: "seed", argument: "number", help: "seed of the requests; default 1" },
  { name: "start_timeout", argument: "seconds", help: "time a server has to become healthy; default 300" },
  { name: "work_dir", argument: "folder", help: "models, caches and results; default bench-work" },
  { name: "resume", help: "continue an interrupted run: measure what its results in the work_dir lack" },
  { name: "smoke", help: "defaults of the CPU smoke run: dcnv2-smoke, B_req 1,16, C 1,8, short" },
  { name: "dry_run", help: "print every command and the duration, and start nothing" },
];

/** Takes hyphens in the names of flags for underscores; values and other arguments stay as they are. */
export function withUnderscores(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.map((arg, index) => {
    if (!/^--[a-z]/i.test(arg) || (end >= 0 && index > end)) return arg;
    const equals = arg.indexOf("=");
    const name = equals < 0 ? arg : arg.slice(0, equals);
    return `--${name.slice(2).replaceAll("-", "_")}${equals < 0 ? "" : arg.slice(equals)}`;
  });
}
