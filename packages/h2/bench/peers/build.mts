/** Builds the servers of others that h2:bench measures against, where their tools are: `node bench/peers/build.mts`. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../../../..");
const cache = path.join(root, "node_modules/.cache/h2-bench");
const proto = path.join(root, "proto");

function has(command: string): boolean {
  return spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;
}

function missing(peer: string, tools: readonly string[]): boolean {
  const lacking = tools.filter((tool) => !has(tool));
  if (lacking.length > 0) console.error(`${peer}: not built, ${lacking.join(" and ")} missing`);
  return lacking.length > 0;
}

if (!missing("tonic", ["cargo", "protoc"])) {
  execFileSync("cargo", ["build", "--release", "--locked"], {
    cwd: path.join(here, "tonic"),
    env: { ...process.env, DLRM_PROTO: proto, CARGO_TARGET_DIR: path.join(cache, "tonic") },
    stdio: "inherit",
  });
}
if (!missing("gRPC C++", ["g++", "protoc", "grpc_cpp_plugin", "pkg-config"])) {
  const out = path.join(cache, "grpc-cpp");
  mkdirSync(out, { recursive: true });
  const command = [
    `protoc -I'${proto}' --cpp_out=. --grpc_out=. --plugin=protoc-gen-grpc=$(command -v grpc_cpp_plugin) dlrm/serving/v1/prediction.proto`,
    `g++ -O2 -std=c++17 -I. '${here}/grpc-cpp/server.cc' dlrm/serving/v1/*.cc -o server $(pkg-config --cflags --libs grpc++ protobuf)`,
  ].join(" && ");
  execFileSync("sh", ["-c", command], { cwd: out, stdio: "inherit" });
}
