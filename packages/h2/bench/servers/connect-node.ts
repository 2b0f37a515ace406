/** Connect's own server over node:http2. Prints its port. */
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { predictDescriptors } from "../workload.ts";

const { service } = predictDescriptors();
const implementation = {
  predict(request: { readonly inputs: Record<string, unknown> }) {
    const data = new Uint8Array(Float32Array.of(Object.keys(request.inputs).length).buffer);
    return { outputs: { scores: { dataType: 1, shape: [1n], data } } };
  },
};
// The method's types are known only when it runs.
const adapter = connectNodeAdapter({ routes: (router) => router.service(service, implementation as never) });
const server = http2.createServer({ settings: { initialWindowSize: 1 << 20 } }, adapter);
server.on("session", (session) => session.setLocalWindowSize(16 << 20));
server.listen(0, "127.0.0.1", () => console.log(String((server.address() as AddressInfo).port)));
