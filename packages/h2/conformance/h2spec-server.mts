/** A server for h2spec, cleartext or TLS: prints its port. It answers a request when its body has come, as h2spec expects. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import { createServer, encodeHeaderBlock, type StreamHandler } from "@dlrm/h2";

const [key, cert] = process.argv.slice(2);
const ok = encodeHeaderBlock([
  [":status", "200"],
  ["content-type", "text/plain"],
]);
const body = Buffer.alloc(1000, "x");
const handler: StreamHandler = { body: "whole", onBody: (stream) => stream.respond(ok, body) };
const server = createServer({
  onRequest: () => handler,
  ...(key === undefined || cert === undefined ? {} : { tls: { key: readFileSync(key), cert: readFileSync(cert) } }),
});
if (key === undefined) {
  // With prior knowledge: a preface that is wrong is HTTP/2's to refuse, and not handed to HTTP/1.1.
  const listener = net.createServer({ noDelay: true }, (socket) => server.accept(socket)).listen(0, "127.0.0.1");
  await once(listener, "listening");
  tell((listener.address() as AddressInfo).port);
} else {
  tell(await server.listen());
}

/** A number would be coloured under FORCE_COLOR. */
function tell(port: number): void {
  console.log(String(port));
}
