/** node:http2, the leanest way that it offers (the 'stream' event), with protobuf-es. Prints its port. */
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { create, fromBinary, toBinary, type Message } from "@bufbuild/protobuf";
import { predictDescriptors } from "../workload.ts";

const { request, response } = predictDescriptors();
const server = http2.createServer({ settings: { initialWindowSize: 1 << 20 } });
server.on("session", (session) => session.setLocalWindowSize(16 << 20));
server.on("stream", (stream) => {
  const pieces: Buffer[] = [];
  stream.on("data", (piece: Buffer) => pieces.push(piece));
  stream.on("end", () => {
    const body = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    const message = fromBinary(request, body.subarray(5)) as Message & { inputs: Record<string, unknown> };
    const data = new Uint8Array(Float32Array.of(Object.keys(message.inputs).length).buffer);
    const bytes = toBinary(response, create(response, { outputs: { scores: { dataType: 1, shape: [1n], data } } }));
    const answer = Buffer.alloc(5 + bytes.length);
    answer.writeUInt32BE(bytes.length, 1);
    answer.set(bytes, 5);
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(answer);
  });
});
server.listen(0, "127.0.0.1", () => console.log(String((server.address() as AddressInfo).port)));
