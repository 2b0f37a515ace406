/**
 * `nx run h2:bench -- [--repeats 3] [--calls 40000] [--servers h2,tonic,…] [--server-cpu 0] [--client-cpu 1]`: server CPU
 * microseconds a unary call, ours beside others, for requests of 1, 16 and 128 examples. Each server is a process of its own,
 * pinned to one CPU; h2load (of nghttp2) calls them in turn from another. Writes bench-results/h2.json; what is not installed
 * or built (`node bench/peers/build.mts`) is left out with a line.
 */
import { execFile, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { CACHE, PREDICT_PATH, requestBody, ROOT } from "./workload.ts";

const { values: options } = parseArgs({
  options: {
    repeats: { type: "string", default: "3" },
    calls: { type: "string", default: "40000" },
    servers: { type: "string" },
    "server-cpu": { type: "string", default: "0" },
    "client-cpu": { type: "string", default: "1" },
  },
});
const repeats = Number(options.repeats);
const calls = Number(options.calls);
const nodeFlags = ["--conditions=@dlrm/source", "--no-warnings"];
const here = path.dirname(fileURLToPath(import.meta.url));
const run = promisify(execFile);

/** Larger requests are fewer, so that each takes about as long. */
const sizes = [
  { examples: 1, calls },
  { examples: 16, calls: Math.ceil(calls / 2) },
  { examples: 128, calls: Math.ceil(calls / 8) },
];
const CONNECTIONS = 8;
const STREAMS = 8;
const TICKS_PER_SECOND = 100;

interface Peer {
  readonly name: string;
  /** A command that prints its port, or takes one as its last argument. */
  readonly command: readonly string[];
  readonly takesPort: boolean;
}

const script = (name: string): readonly string[] => [
  process.execPath,
  ...nodeFlags,
  path.join(here, `servers/${name}.ts`),
];
const peers: readonly Peer[] = [
  { name: "h2_server", command: script("h2"), takesPort: false },
  { name: "tonic", command: [path.join(CACHE, "tonic/release/h2-bench-tonic")], takesPort: true },
  { name: "grpc_cpp", command: [path.join(CACHE, "grpc-cpp/server")], takesPort: true },
  { name: "node_http2", command: script("node-http2"), takesPort: false },
  { name: "connect_node", command: script("connect-node"), takesPort: false },
];

const hasTaskset = spawnSync("taskset", ["--version"]).status === 0;
const pinned = (cpu: string, command: readonly string[]): readonly [string, ...string[]] =>
  (hasTaskset ? ["taskset", "-c", cpu, ...command] : command) as [string, ...string[]];

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

const children: ChildProcess[] = [];

async function start(peer: Peer): Promise<{ readonly peer: Peer; readonly pid: number; readonly port: number }> {
  const port = peer.takesPort ? await freePort() : undefined;
  const [file, ...args] = pinned(options["server-cpu"], [
    ...peer.command,
    ...(port === undefined ? [] : [String(port)]),
  ]);
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  const pid = child.pid as number;
  if (port !== undefined) await connectable(port);
  return { peer, pid, port: port ?? Number(line) };
}

/** tonic says that it listens before it does. */
async function connectable(port: number): Promise<void> {
  for (;;) {
    const socket = net.connect(port, "127.0.0.1");
    const isUp = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
    });
    socket.destroy();
    if (isUp) return;
  }
}

/** User and system time of a process so far, all threads, microseconds. */
function cpuMicros(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6;
}

async function load(port: number, bodyFile: string, count: number): Promise<void> {
  const [file, ...args] = pinned(options["client-cpu"], [
    "h2load",
    ...["-n", String(count), "-c", String(CONNECTIONS), "-m", String(STREAMS), "-d", bodyFile],
    ...["-H", "content-type: application/grpc+proto", "-H", "te: trailers"],
    `http://127.0.0.1:${port}${PREDICT_PATH}`,
  ]);
  const { stdout } = await run(file, args, { maxBuffer: 1 << 24 });
  if (!stdout.includes(`${count} succeeded, 0 failed`))
    throw new Error(`calls to port ${port} failed:\n${stdout.split("\n").slice(-12).join("\n")}`);
}

const samples = new Map<string, number[]>();
function record(name: string, value: number): void {
  const list = samples.get(name) ?? [];
  list.push(value);
  samples.set(name, list);
}
function median(list: readonly number[]): number {
  const sorted = list.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

if (!existsSync("/proc/self/stat") || spawnSync("h2load", ["--version"]).status !== 0) {
  console.log("h2:bench needs Linux and h2load (Debian: nghttp2-client); nothing was measured");
  process.exit(0);
}
const wanted = options.servers?.split(",");
const chosen = peers.filter((peer) => {
  if (wanted !== undefined && !wanted.includes(peer.name)) return false;
  const isBuilt = existsSync(peer.command[0] as string);
  if (!isBuilt)
    console.log(`${peer.name}: left out, it is not built (node ${path.relative(ROOT, here)}/peers/build.mts)`);
  return isBuilt;
});
mkdirSync(CACHE, { recursive: true });
const bodies = new Map<number, string>();
for (const { examples } of sizes) {
  const file = path.join(CACHE, `body-${examples}.bin`);
  writeFileSync(file, requestBody(examples));
  bodies.set(examples, file);
}

try {
  const running = [];
  for (const peer of chosen) running.push(await start(peer));
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const { examples, calls: count } of sizes) {
      // Every other round starts from the other end.
      for (const { peer, pid, port } of repeat % 2 === 0 ? running : running.toReversed()) {
        const bodyFile = bodies.get(examples) as string;
        await load(port, bodyFile, Math.ceil(count / (repeat === 0 ? 2 : 8)));
        const before = cpuMicros(pid);
        await load(port, bodyFile, count);
        record(`${peer.name}_us_b${examples}`, (cpuMicros(pid) - before) / count);
      }
    }
    const ours = running.find(({ peer }) => peer.name === "h2_server");
    if (ours !== undefined) {
      const [file, ...args] = pinned(options["client-cpu"], [
        process.execPath,
        ...nodeFlags,
        path.join(here, "client.ts"),
        String(ours.port),
        String(calls),
        bodies.get(1) as string,
      ]);
      record("h2_client_us", Number((await run(file, args)).stdout));
    }
    process.stderr.write(`\rround ${repeat + 1} of ${repeats}`);
  }
  process.stderr.write("\n");
} finally {
  for (const child of children) child.kill("SIGKILL");
}

const figures = [...samples].map(([name, list]) => ({
  name,
  value: median(list),
  unit: "µs of CPU a call",
  samples: list,
}));
mkdirSync(path.join(ROOT, "bench-results"), { recursive: true });
writeFileSync(path.join(ROOT, "bench-results/h2.json"), `${JSON.stringify(figures, null, 2)}\n`);
for (const { name, value, samples: all } of figures)
  console.log(
    `${name.padEnd(22)} ${value.toFixed(1).padStart(7)} µs  (${all.map((each) => each.toFixed(1)).join(", ")})`,
  );
