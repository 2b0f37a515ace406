/** Our server: decodes the request straight from wire bytes and answers one float. Prints its port. */
import { createServer, encodeHeaderBlock, type StreamHandler } from "@dlrm/h2";
import { PredictDecoder } from "../predict-decoder.ts";
import { responseBody } from "../workload.ts";

const head = encodeHeaderBlock([
  [":status", "200"],
  ["content-type", "application/grpc"],
]);
const trailers = encodeHeaderBlock([["grpc-status", "0"]]);
const answer = responseBody(0);
const decoder = new PredictDecoder();

const handler: StreamHandler = {
  body: "whole",
  maxBodyBytes: 64 << 20,
  borrowsBody: true,
  expectedBytes: (_, first) => (first.length < 5 ? undefined : 5 + first.readUInt32BE(1)),
  onBody(stream, body) {
    decoder.decode(body, 5, body.length);
    answer.writeFloatLE(decoder.tensors, answer.length - 4);
    stream.respond(head, answer, trailers);
  },
};
console.log(await createServer({ onRequest: () => handler }).listen());
