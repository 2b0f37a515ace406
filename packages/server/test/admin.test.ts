import { afterAll, beforeAll, expect, test } from "vitest";
import { exampleRequest, inputsOf } from "./example-requests.ts";
import { HeldDevice } from "./held-device.ts";
import { grpcClient, startTestServer, type TemporaryBundle, temporaryBundle } from "./serving-fixture.ts";

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

const get = async (port: number | undefined, path: string): Promise<[status: number, body: string]> => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return [response.status, await response.text()];
};

test("metrics count requests by code, batches by reason, padding, and times by stage", async () => {
  await using server = await startTestServer(bundle, { adminPort: 0, batching: "off" });
  const client = grpcClient(server.port);
  await client.predict({ inputs: inputsOf(exampleRequest(1, 1)) });
  await client.predict({ inputs: inputsOf(exampleRequest(2, 3)) });
  const wrong = exampleRequest(3, 1);
  wrong.ids[1]![0] = 7;
  await expect(client.predict({ inputs: inputsOf(wrong) })).rejects.toThrow("expected ids from 0 to 6, got 7");
  const [status, text] = await get(server.adminPort, "/metrics");
  expect(status).toBe(200);
  const samples = new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => line.split(" ") as [string, string]),
  );
  const value = (name: string): number => Number(samples.get(name));
  expect(value("dlrm_ready")).toBe(1);
  expect(value('dlrm_requests_total{code="OK"}')).toBe(2);
  expect(value('dlrm_requests_total{code="INVALID_ARGUMENT"}')).toBe(1);
  expect(value('dlrm_out_of_vocabulary_total{input="sparse_1"}')).toBe(1);
  expect(value("dlrm_examples_total")).toBe(4);
  expect(value("dlrm_batched_examples_total")).toBe(4);
  expect(value("dlrm_padding_examples_total")).toBe(1);
  expect(value("dlrm_in_flight_requests")).toBe(0);
  const batches = [...samples].filter(([name]) => name.startsWith("dlrm_batches_total"));
  expect(batches.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(2);
  // Two requests and the one that is refused were decoded; the warm-up was gathered and run, too.
  const counts = { decode: 3, gather: 3, queue: 3, device: 3, respond: 2 };
  for (const [stage, count] of Object.entries(counts)) {
    expect(value(`dlrm_stage_seconds_count{stage="${stage}"}`), `stage ${stage}`).toBe(count);
    expect(value(`dlrm_stage_seconds_bucket{stage="${stage}",le="+Inf"}`), `stage ${stage}`).toBe(count);
    expect(value(`dlrm_stage_seconds_sum{stage="${stage}"}`), `stage ${stage}`).toBeGreaterThan(0);
  }
  expect(samples.has('dlrm_event_loop_delay_seconds{thread="main",quantile="1"}')).toBe(true);
  expect(value("process_resident_memory_bytes")).toBeGreaterThan(1e6);
  expect(value("process_cpu_seconds_total")).toBeGreaterThan(0);
  for (const [name, text_] of samples) expect(Number(text_), `metric ${name}`).not.toBeNaN();
});

test("readyz follows the phase, healthz answers in all of them, and other paths are not there", async () => {
  const device = new HeldDevice();
  await using server = await startTestServer(bundle, { adminPort: 0, device: device.open });
  using _release = device;
  expect(await get(server.adminPort, "/readyz")).toEqual([200, "serving\n"]);
  const begun = device.hold();
  const inFlight = grpcClient(server.port).predict({ inputs: inputsOf(exampleRequest(1, 1)) });
  await begun;
  const drained = server.drain();
  expect(await get(server.adminPort, "/readyz")).toEqual([503, "draining\n"]);
  expect(await get(server.adminPort, "/healthz")).toEqual([200, "draining\n"]);
  expect(await get(server.adminPort, "/")).toEqual([404, "expected /metrics, /healthz or /readyz\n"]);
  const post = await fetch(`http://127.0.0.1:${server.adminPort}/metrics`, { method: "POST" });
  expect(post.status).toBe(405);
  device.release();
  await inFlight;
  expect(await drained).toEqual({ unfinishedRequests: 0 });
  await expect(get(server.adminPort, "/healthz")).rejects.toThrow("fetch failed");
});

test("there is no admin port unless it is asked for", async () => {
  await using server = await startTestServer(bundle);
  expect(server.adminPort).toBeUndefined();
});
