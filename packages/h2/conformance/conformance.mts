/**
 * `nx run h2:conformance`: the public conformance tools against this package, each at a pinned version, built through the Go
 * proxy into a cache folder. Without Go it says so and succeeds; with `--if-available` also where the tools cannot be fetched. With
 * `--install` it only fetches them.
 *
 * - h2spec (RFC 9113 and RFC 7541), cleartext and TLS: every case must pass.
 * - connectconformance (gRPC, gRPC-web, Connect; h2c, h2, HTTP/1.1) against Connect's handlers over this package, and against
 *   Connect's clients over this package: every case must pass, but for those in which Connect's library itself fails
 *   (client-known-failing.txt). `--node` runs the same over node:http2 too, to compare.
 *
 * Some cases have deadlines of 200 ms, which a machine with other guests can miss. With `--retry` up to three cases that failed
 * are named and run once more, alone, and decide by that.
 */
import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const H2SPEC = { module: "github.com/summerwind/h2spec", command: "cmd/h2spec", version: "v2.2.1+incompatible" };
const CONNECT = { module: "connectrpc.com/conformance", command: "cmd/connectconformance", version: "v1.0.7" };

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../../..");
const cache = path.join(root, "node_modules/.cache/h2-conformance");
const nodeFlags = ["--conditions=@dlrm/source", "--no-warnings"];

/** Fetching and building a tool takes a minute; a network that swallows packets, for ever. */
const FETCH_TIMEOUT_MS = 300_000;
const FLAGS = new Set(["--node", "--h2spec", "--connect", "--client", "--if-available", "--install", "--retry"]);
/** More failures than these are no accident of time. */
const MAX_RETRIED_CASES = 3;

const flags = new Set(process.argv.slice(2));
const unknown = [...flags].filter((flag) => !FLAGS.has(flag));
if (unknown.length > 0) {
  console.error(
    `usage: conformance.mts [--h2spec] [--connect | --client] [--node] [--if-available] [--install] [--retry]`,
  );
  console.error(`got ${unknown.join(" ")}`);
  process.exit(2);
}
if (spawnSync("go", ["version"]).status !== 0) {
  console.log("conformance: Go is not installed here, so the public tools cannot be built; nothing was tested");
  process.exit(0);
}

/** Before anything is tested: what is needed cannot be had. */
function giveUp(what: string): never {
  console.log(`conformance: ${what}, so nothing was tested`);
  process.exit(flags.has("--if-available") ? 0 : 1);
}

/** Builds a tool unless that was done before; returns its path. */
function install(tool: typeof H2SPEC): string {
  const bin = path.join(cache, `${path.basename(tool.command)}-${tool.version}`);
  const file = path.join(bin, path.basename(tool.command));
  if (existsSync(file)) return file;
  console.error(`installing ${tool.module} ${tool.version}`);
  mkdirSync(bin, { recursive: true });
  const built = spawnSync("go", ["install", `${tool.module}/${tool.command}@${tool.version}`], {
    cwd: cache,
    env: { ...process.env, GOBIN: bin },
    stdio: ["ignore", "ignore", "inherit"],
    timeout: FETCH_TIMEOUT_MS,
  });
  if (built.status !== 0) giveUp(`${tool.module} could not be fetched or built`);
  return file;
}

function selfSigned(): { key: string; cert: string } {
  const key = path.join(cache, "key.pem");
  const cert = path.join(cache, "cert.pem");
  const openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
  const made = spawnSync("openssl", [...openssl.split(" "), "-keyout", key, "-out", cert], { stdio: "ignore" });
  if (made.status !== 0) giveUp("openssl makes no certificate here");
  return { key, cert };
}

async function h2spec(tool: string, tls: { key: string; cert: string } | undefined): Promise<boolean> {
  const server: ChildProcess = spawn(
    process.execPath,
    [...nodeFlags, path.join(here, "h2spec-server.mts"), ...(tls === undefined ? [] : [tls.key, tls.cert])],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  try {
    const [port] = (await once(createInterface(server.stdout as NodeJS.ReadableStream), "line")) as [string];
    const run = spawn(tool, ["--strict", "-o", "5", "-p", port, ...(tls === undefined ? [] : ["-t", "-k"])], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines: string[] = [];
    createInterface(run.stdout as NodeJS.ReadableStream).on("line", (line) => lines.push(line));
    const [code] = (await once(run, "close")) as [number];
    if (code !== 0) console.log(lines.join("\n"));
    const summary = lines.findLast((line) => line.includes(" tests, ")) ?? "no summary";
    console.log(`h2spec ${tls === undefined ? "cleartext" : "TLS"}: ${summary}`);
    return code === 0;
  } finally {
    server.kill("SIGKILL");
  }
}

/** The suite's descriptors, in a file. */
function describe(): string {
  const found = spawnSync("go", ["mod", "download", "-json", `${CONNECT.module}@${CONNECT.version}`], {
    cwd: cache,
    encoding: "utf8",
    timeout: FETCH_TIMEOUT_MS,
  });
  if (found.status !== 0) giveUp(`the messages of ${CONNECT.module} could not be fetched`);
  const { Dir: dir } = JSON.parse(found.stdout) as { Dir: string };
  const descriptors = path.join(cache, "descriptors.binpb");
  execFileSync("buf", ["build", path.join(dir, "proto"), "-o", descriptors], { stdio: "inherit" });
  return descriptors;
}

const subjects = {
  server: { what: "our server", mode: "server", config: "config.yaml", program: ["server.mts", "h2"] },
  nodeServer: {
    what: "a server over node:http2",
    mode: "server",
    config: "config.yaml",
    program: ["server.mts", "node"],
  },
  client: { what: "our client", mode: "client", config: "client-config.yaml", program: ["client.mts", "h2"] },
  nodeClient: {
    what: "a client over node:http2",
    mode: "client",
    config: "client-config.yaml",
    program: ["client.mts", "node"],
  },
} as const;

/** Runs the suite, or the one case of that name; the names of the cases that failed, undefined if it did not come to that. */
async function runConnect(
  tool: string,
  descriptors: string,
  subject: keyof typeof subjects,
  onlyCase?: string,
): Promise<string[] | undefined> {
  const { what, mode, config, program } = subjects[subject];
  const [script, ...args] = program;
  const command = [process.execPath, ...nodeFlags, path.join(here, script), ...args, descriptors];
  const run = spawn(
    tool,
    [
      ...["--mode", mode, "--conf", path.join(here, config)],
      ...["--max-servers", "2"],
      ...(onlyCase === undefined ? [] : ["--run", onlyCase]),
      ...(mode === "client" && onlyCase === undefined
        ? ["--known-failing", `@${path.join(here, "client-known-failing.txt")}`]
        : []),
      ...["--", ...command],
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  const lines: string[] = [];
  for (const output of [run.stdout, run.stderr]) createInterface(output).on("line", (line) => lines.push(line));
  const [code] = (await once(run, "close")) as [number];
  if (code !== 0) console.log(lines.filter((line) => !/^(PASSED|INFO)/.test(line)).join("\n"));
  const summary = lines.findLast((line) => line.includes(" passed, "));
  console.log(
    `connectconformance of ${what}${onlyCase === undefined ? "" : `, ${onlyCase}`}: ${summary ?? "no summary"}`,
  );
  const failed = lines.flatMap((line) => /^FAILED: (.*?):?$/.exec(line)?.[1] ?? []);
  if (code === 0) return [];
  return summary === undefined || failed.length === 0 ? undefined : failed;
}

async function connect(tool: string, descriptors: string, subject: keyof typeof subjects): Promise<boolean> {
  const failed = await runConnect(tool, descriptors, subject);
  if (failed === undefined) return false;
  if (failed.length > (flags.has("--retry") ? MAX_RETRIED_CASES : 0)) return false;
  for (const name of failed) {
    if ((await runConnect(tool, descriptors, subject, name))?.length !== 0) return false;
  }
  return true;
}

const all = !["--h2spec", "--connect", "--client"].some((flag) => flags.has(flag));
const startedMs = performance.now();
const results: boolean[] = [];
mkdirSync(cache, { recursive: true });
const frames = all || flags.has("--h2spec") ? { tool: install(H2SPEC), tls: selfSigned() } : undefined;
const calls =
  all || flags.has("--connect") || flags.has("--client")
    ? { tool: install(CONNECT), descriptors: describe() }
    : undefined;
// All that is needed is there: from here on, what goes wrong is ours.
if (flags.has("--install")) process.exit(0);
if (frames !== undefined) {
  const { tool, tls } = frames;
  results.push(await h2spec(tool, undefined), await h2spec(tool, tls));
  rmSync(tls.key);
}
if (calls !== undefined) {
  const { tool, descriptors } = calls;
  if (!flags.has("--client")) results.push(await connect(tool, descriptors, "server"));
  results.push(await connect(tool, descriptors, "client"));
  // What Connect's own server and clients do is shown, and decides nothing.
  if (flags.has("--node") && !flags.has("--client")) await connect(tool, descriptors, "nodeServer");
  if (flags.has("--node")) await connect(tool, descriptors, "nodeClient");
}
console.log(`conformance took ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
process.exitCode = results.every(Boolean) ? 0 : 1;
