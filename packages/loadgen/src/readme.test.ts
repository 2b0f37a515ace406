import { create, toBinary } from "@bufbuild/protobuf";
import { DataType, GetModelMetadataResponseSchema } from "@dlrm/proto";
import { spawnSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { grpcFrame } from "./grpc-frame.ts";
import { METADATA_PATH } from "./predict-path.ts";

// These tests start several processes each; a machine that is busy takes its time for that.
vi.setConfig({ testTimeout: 180_000 });

const folder = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(`${folder}/README.md`, "utf8");

test("the README's library example runs as it stands", async () => {
  const metadata = create(GetModelMetadataResponseSchema, {
    model: "m",
    inputs: [
      { name: "dense", dataTypes: [DataType.FLOAT32], shape: [-1n, 13n] },
      { name: "sparse_0", dataTypes: [DataType.INT32], shape: [-1n, 2n] },
    ],
    tables: [{ input: "sparse_0", vocabularySize: 50n, hotSize: 2 }],
  });
  const server = createServer();
  server.on("sessionError", () => {});
  server.on("stream", (stream, headers) => {
    const described = headers[":path"] === METADATA_PATH;
    stream.on("error", () => {});
    stream.resume();
    stream.on("end", () => {
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(grpcFrame(described ? toBinary(GetModelMetadataResponseSchema, metadata) : Buffer.alloc(8)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;

  const example = /```ts\n([^`]*runLoad[^]*?)```/.exec(readme)?.[1] ?? "";
  const adapted = example.replace("port: 8500", `port: ${port}`).replace("durationS: 10", "durationS: 0.5, warmupS: 0");
  expect(adapted).toContain(`port: ${port}`);
  expect(adapted).toContain("durationS: 0.5");
  const args = ["--conditions=@dlrm/source", "--input-type=module-typescript", "-e", adapted];
  const child = spawn(process.execPath, args, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number];
  server.close();
  expect(code).toBe(0);
  expect(output).toMatch(/^\d+(\.\d+)? \d+(\.\d+)? \{\} \{\s+valid: /);
});

test("every flag that the README's commands use exists", () => {
  const help = spawnSync(process.execPath, ["--conditions=@dlrm/source", "src/cli.ts", "--help"], {
    cwd: folder,
    encoding: "utf8",
  }).stdout;
  const flags = new Set(
    [...readme.matchAll(/npx dlrm-loadgen [^\n]*/g)].flatMap(([line]) => line.match(/--[a-z-]+/g) ?? []),
  );
  expect([...flags].toSorted()).toEqual([
    "--concurrency",
    "--cpus",
    "--duration",
    "--output",
    "--rate",
    "--request-size",
    "--scenario",
  ]);
  for (const flag of flags) expect(help).toContain(flag);
});
