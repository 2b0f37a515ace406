/** Our client: `client.ts PORT CALLS BODY_FILE`. Prints the CPU microseconds that a call costs it, after a warm-up. */
import { readFileSync } from "node:fs";
import { connect, encodeHeaderBlock, type StreamHandler } from "@dlrm/h2";
import { PREDICT_PATH } from "./workload.ts";

const IN_FLIGHT = 64;
const [port = "", calls = "", bodyFile = ""] = process.argv.slice(2);
const body = readFileSync(bodyFile);
const head = encodeHeaderBlock([
  [":method", "POST"],
  [":scheme", "http"],
  [":path", PREDICT_PATH],
  [":authority", "127.0.0.1"],
  ["te", "trailers"],
  ["content-type", "application/grpc+proto"],
]);
const connection = await connect({ host: "127.0.0.1", port: Number(port) });
await connection.ping();

function run(count: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let started = 0;
    let finished = 0;
    const handler: StreamHandler = {
      body: "whole",
      onBody(_, answer, trailers) {
        if (trailers?.get("grpc-status") !== "0" || answer.length < 9) reject(new Error("a call failed"));
        finished += 1;
        if (started < count) start();
        else if (finished === count) resolve();
      },
      onReset: (_, code) => reject(new Error(`a call was reset with ${code}`)),
    };
    const start = (): void => {
      started += 1;
      if (connection.request(head, body, handler) === undefined) reject(new Error("no room for a stream"));
    };
    for (let index = 0; index < Math.min(IN_FLIGHT, count); index++) start();
  });
}

await run(Number(calls) / 2);
const before = process.cpuUsage();
await run(Number(calls));
const { user, system } = process.cpuUsage(before);
console.log(((user + system) / Number(calls)).toFixed(2));
connection.destroy();
