/**
 * `nx run batcher:test-runtimes`: checks the built package in every runtime that is found here: Node, other versions of it in
 * `NODE_BINARIES` (paths, comma between them), Bun, Deno, and a browser of Chromium's kind. `REQUIRED_RUNTIMES=bun,deno` makes
 * it fail where those are missing.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const TIMEOUT_MS = 60_000;
const BROWSERS = ["google-chrome", "chromium", "chromium-browser", "chrome"];
const packageRoot = fileURLToPath(new URL("../../", import.meta.url));
const script = fileURLToPath(new URL("main.js", import.meta.url));

interface Outcome {
  readonly runtime: string;
  /** undefined where the runtime is not here. */
  readonly passed: boolean | undefined;
  readonly text: string;
}

function inProcess(runtime: string, command: string, args: readonly string[]): Outcome {
  const version = spawnSync(command, ["--version"], { encoding: "utf8" });
  if (version.status !== 0) {
    return { runtime, passed: undefined, text: "not found" };
  }
  const { status, stdout, stderr } = spawnSync(command, [...args, script], { encoding: "utf8", timeout: TIMEOUT_MS });
  const name = `${version.stdout.split("\n")[0]}`.trim();
  return { runtime, passed: status === 0 && stdout.includes("checked:"), text: `${name}: ${stdout}${stderr}`.trim() };
}

const TYPES: Readonly<Record<string, string>> = { ".html": "text/html", ".js": "text/javascript" };

async function inBrowser(): Promise<Outcome> {
  const command = BROWSERS.find((name) => spawnSync(name, ["--version"]).status === 0);
  if (command === undefined) {
    return { runtime: "browser", passed: undefined, text: "not found" };
  }
  const profile = await mkdtemp(path.join(tmpdir(), "batcher-browser-"));
  let report: (text: string) => void = () => {};
  const reported = new Promise<string>((resolve) => {
    report = resolve;
  });
  const server = createServer((request, response) => {
    if (request.method === "POST") {
      let body = "";
      request.on("data", (data) => {
        body += String(data);
      });
      request.on("end", () => {
        response.end();
        report(body);
      });
      return;
    }
    const file = path.join(packageRoot, path.normalize(new URL(request.url ?? "/", "http://localhost").pathname));
    readFile(file).then(
      (content) => {
        response.writeHead(200, {
          "content-type": TYPES[path.extname(file)] ?? "application/octet-stream",
          // Without these a page has no SharedArrayBuffer.
          "cross-origin-opener-policy": "same-origin",
          "cross-origin-embedder-policy": "require-corp",
        });
        response.end(content);
      },
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://localhost:${port}/test/runtimes/browser.html`;
  const args = ["--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`, url];
  const browser = spawn(command, args, { stdio: "ignore" });
  const timer = setTimeout(() => report(`no outcome within ${TIMEOUT_MS} ms`), TIMEOUT_MS);
  const text = await reported;
  clearTimeout(timer);
  const ended = new Promise((resolve) => {
    browser.once("exit", resolve);
  });
  browser.kill();
  await ended;
  server.close();
  await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  return { runtime: "browser", passed: text.startsWith("checked:"), text: `${command}: ${text}` };
}

const others = (process.env.NODE_BINARIES ?? "").split(",").filter((file) => file !== "");
const required = new Set((process.env.REQUIRED_RUNTIMES ?? "").split(","));
const outcomes = [
  ...[process.execPath, ...others].map((file) => inProcess("node", file, [])),
  inProcess("bun", "bun", ["run"]),
  inProcess("deno", "deno", ["run"]),
  await inBrowser(),
];
for (const { runtime, passed, text } of outcomes) {
  console.log(`${passed === undefined ? "missing" : passed ? "ok     " : "FAILED "} ${runtime}: ${text}`);
}
const bad = outcomes.filter(
  ({ runtime, passed }) => passed === false || (passed === undefined && required.has(runtime)),
);
process.exitCode = bad.length === 0 ? 0 : 1;
