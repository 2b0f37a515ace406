/**
 * A small server under test. `--port P --mode M [--notify-port N]`; every score is `(first id of sparse_0 mod 97) / 97`.
 * Modes: ok; early-exit (says why and ends with code 3 before it listens); stubborn (ignores SIGTERM); wrong (scores are
 * off by 0.01); not-serving; child (starts another process that would outlive it); crash (a Predict closes the connection, and
 * a moment later the process ends with code 7); killed (a Predict ends it with SIGKILL); hang-up (a Predict closes the
 * connection); error (a Predict is answered with INTERNAL). A Predict of the model "crash" ends the process with code 7 in any
 * mode. With a notify port it, or its child, holds a connection to there for as long as it lives.
 *
 * It imports nothing but Node, because tests start dozens of them.
 */
import { spawn } from "node:child_process";
import { createServer, type ServerHttp2Stream } from "node:http2";
import { connect } from "node:net";
import { parseArgs } from "node:util";

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

/** Fields of a protobuf message, of wire types 0 and 2, as `[number, value]`. */
function* fieldsOf(bytes: Buffer): Generator<[number, number | Buffer]> {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const value = varint();
    if ((tag & 7) === 0) {
      yield [tag >>> 3, value];
    } else {
      yield [tag >>> 3, bytes.subarray(at, at + value)];
      at += value;
    }
  }
}

const field = (message: Buffer, number: number): number | Buffer | undefined =>
  [...fieldsOf(message)].find(([found]) => found === number)?.[1];
const varintOf = (value: number): number[] =>
  value < 128 ? [value] : [(value & 127) | 128, ...varintOf(Math.floor(value / 128))];
const lengthDelimited = (number: number, ...parts: Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...varintOf(body.length)]), body]);
};

/** A PredictResponse for a PredictRequest. */
function predict(request: Buffer): Buffer {
  if (String(field(request, 1)) === "crash") {
    console.error("out of memory");
    process.exit(7);
  }
  const inputs = [...fieldsOf(request)].flatMap(([number, entry]) => (number === 2 ? [entry as Buffer] : []));
  const input = inputs.find((entry) => String(field(entry, 1)) === "sparse_0");
  const buffer = field(input as Buffer, 2) as Buffer;
  const wide = field(buffer, 1) === 3;
  const shape = field(buffer, 2) as Buffer;
  const batch = shape[0] as number;
  const data = field(buffer, 3) as Buffer;
  const scores = Float32Array.from({ length: batch }, (_, example) => {
    const at = (example * data.length) / batch;
    const id = wide ? Number(data.readBigInt64LE(at)) : data.readInt32LE(at);
    return (id % 97) / 97 + (mode === "wrong" ? 0.01 : 0);
  });
  const output = [
    Buffer.from([8, 1]),
    lengthDelimited(2, Buffer.from(varintOf(batch))),
    lengthDelimited(3, new Uint8Array(scores.buffer)),
  ];
  return lengthDelimited(1, lengthDelimited(1, Buffer.from("scores")), lengthDelimited(2, ...output));
}

/** What a Predict does in some modes instead of an answer; false in the others. */
function misbehave(stream: ServerHttp2Stream): boolean {
  switch (mode) {
    case "crash":
      console.error("no rows for sparse_0");
      stream.session?.destroy();
      setTimeout(() => process.exit(7), 50);
      return true;
    case "killed":
      process.kill(process.pid, "SIGKILL");
      return true;
    case "hang-up":
      stream.session?.destroy();
      return true;
    case "error":
      stream.respond({ "content-type": "application/grpc", "grpc-status": "13" }, { endStream: true });
      return true;
    default:
      return false;
  }
}

function answer(stream: ServerHttp2Stream, message: Buffer): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([head, message]));
}

const server = createServer();
server.on("stream", (stream, headers) => {
  const chunks: Buffer[] = [];
  stream.on("error", () => undefined);
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", () => {
    const isHealth = headers[":path"] === "/grpc.health.v1.Health/Check";
    if (!isHealth && misbehave(stream)) return;
    const health = Buffer.from([8, mode === "not-serving" ? 2 : 1]);
    answer(stream, isHealth ? health : predict(Buffer.concat(chunks).subarray(5)));
  });
});
process.on("SIGTERM", () => {
  if (mode !== "stubborn") process.exit(0);
});
server.listen(Number(values.port ?? 0), "127.0.0.1", () => console.log("listening"));
