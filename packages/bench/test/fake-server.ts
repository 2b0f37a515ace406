/**
 * A small server under test. `--port P --mode M [--notify-port N]`; every score is `(first id of sparse_0 mod 97) / 97`.
 * Modes: ok; early-exit (says why and ends with code 3 before it listens); stubborn (ignores SIGTERM); wrong (scores are
 * off by 0.01); not-serving; child (starts another process that would outlive it). A Predict of the model "crash" ends the
 * process with code 7. With a notify port it, or its child, holds a connection to there for as long as it lives.
 */
import { spawn } from "node:child_process";
import { createServer } from "node:http2";
import { connect } from "node:net";
import { parseArgs } from "node:util";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { DataType, Health, PredictionService, ServingStatus } from "@dlrm/proto";

const { values } = parseArgs({
  options: { port: { type: "string" }, mode: { type: "string" }, "notify-port": { type: "string" } },
});
const mode = values.mode ?? "ok";
if (mode === "early-exit") {
  console.error("reading tables");
  console.error("cannot open tables.safetensors: no such file");
  process.exit(3);
}
if (values["notify-port"] !== undefined) {
  if (mode === "child") {
    const script = `require("node:net").connect(${Number(values["notify-port"])}, "127.0.0.1")`;
    spawn(process.execPath, ["-e", script], { stdio: "inherit" });
  } else {
    connect(Number(values["notify-port"]), "127.0.0.1");
  }
}

const server = createServer(
  connectNodeAdapter({
    routes: (router) => {
      router.service(Health, {
        check: () => ({ status: mode === "not-serving" ? ServingStatus.NOT_SERVING : ServingStatus.SERVING }),
      });
      router.service(PredictionService, {
        predict: (request) => {
          if (request.model === "crash") {
            console.error("out of memory");
            process.exit(7);
          }
          const input = request.inputs["sparse_0"];
          if (input === undefined) throw new Error("no sparse_0");
          const batch = Number(input.shape[0]);
          const rowBytes = input.data.byteLength / batch;
          const view = new DataView(input.data.buffer, input.data.byteOffset);
          const wide = input.dataType === DataType.INT64;
          const scores = Float32Array.from({ length: batch }, (_, example) => {
            const at = example * rowBytes;
            const id = wide ? Number(view.getBigInt64(at, true)) : view.getInt32(at, true);
            return (id % 97) / 97 + (mode === "wrong" ? 0.01 : 0);
          });
          return {
            outputs: {
              scores: {
                dataType: DataType.FLOAT32,
                shape: [BigInt(batch)],
                data: new Uint8Array(scores.buffer),
              },
            },
          };
        },
      });
    },
  }),
);
process.on("SIGTERM", () => {
  if (mode !== "stubborn") process.exit(0);
});
server.listen(Number(values.port ?? 0), "127.0.0.1", () => console.log("listening"));
