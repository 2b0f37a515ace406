import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterEach, expect, test } from "vitest";
import { Echo, type EchoClient } from "../test/echo-service.ts";

const packageDir = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(`${packageDir}README.md`, "utf8");
const nodeFlags = ["--conditions=@dlrm/source", "--no-warnings", "--input-type=module-typescript"];

/** The code block of the README that is marked with this word. */
function example(mark: string): string {
  const found = new RegExp(`^\`\`\`ts ${mark}\n(.*?)^\`\`\`$`, "ms").exec(readme);
  if (found === null) throw new Error(`no example "${mark}" in README.md`);
  return found[1] as string;
}

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** Runs a server's example on a port of the system's choice: the port that it prints. */
async function serve(code: string): Promise<{ port: string; child: ChildProcess }> {
  const child = spawn(process.execPath, [...nodeFlags, "-e", code.replace("port: 8080", "port: 0")], {
    cwd: packageDir,
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const [line] = (await once(createInterface(child.stdout as NodeJS.ReadableStream), "line")) as [string];
  return { port: line.replace("listening on ", ""), child };
}

test("the README's client talks to the README's server, which drains when it is told to end", async () => {
  const { port, child } = await serve(example("server"));
  const run = promisify(execFile);
  const { stdout, stderr } = await run(
    process.execPath,
    [...nodeFlags, "-e", example("client").replace("port: 8080", `port: ${port}`)],
    { cwd: packageDir },
  );
  expect(stdout).toBe("200 hello\n");
  expect(stderr).toBe("");
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("hello, HTTP/1.1\n");
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

/** With the service of the tests in the place of a generated one. */
const withEcho = (code: string): string =>
  code.replace(
    'import { EchoService } from "./gen/echo_pb.ts";',
    'import { Echo as EchoService } from "./test/echo-service.ts";',
  );

test("the README's Connect client calls the README's Connect service, which answers other gRPC clients too", async () => {
  const code = withEcho(example("connect")).replace(
    "{ echo: (request) => ({ text: request.text }) }",
    "{ unary: (request) => ({ value: request.value }) }",
  );
  const { port } = await serve(code);
  const client = createClient(
    Echo,
    createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` }),
  ) as unknown as EchoClient;
  expect((await client.unary({ value: "hello" })).value).toBe("hello");
  const caller = withEcho(example("connect-client"))
    .replace("127.0.0.1:8080", `127.0.0.1:${port}`)
    .replace('client.echo({ text: "hello" })).text', 'client.unary({ value: "hello" })).value');
  const { stdout } = await promisify(execFile)(process.execPath, [...nodeFlags, "-e", caller], { cwd: packageDir });
  expect(stdout).toBe("hello\n");
});
