import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exampleRequest, expectReferenceScores, inputsOf, scoresOf } from "./example-requests.ts";
import { grpcClient, startTestServer, type TemporaryBundle, temporaryBundle } from "./serving-fixture.ts";

const PLUGIN = path.join(
  import.meta.dirname,
  "../../../node_modules/.cache/dlrm-pjrt/lammps-jax-pjrt-cpu-0.11.2/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
);
const missing = existsSync(PLUGIN) ? "" : " (skipped: needs node packages/accelerator/native/fetch-test-plugins.mts)";
/** Without a C++ compiler there is none, and that is what is told. */
const hasBinding = readdirSync(path.join(import.meta.dirname, "../../accelerator/native")).some((file) =>
  file.endsWith(".node"),
);

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

test.skipIf(missing !== "")(`with XLA's CPU plugin a server gives the reference's scores${missing}`, async () => {
  await using server = await startTestServer(bundle, { device: `pjrt:${PLUGIN}`, maxBatchSize: 8, deviceThreads: 1 });
  const client = grpcClient(server.port);
  const requests = Array.from({ length: 20 }, (_, index) => exampleRequest(index, 1 + (index % 13)));
  await Promise.all(
    requests.map(async (request) => {
      const { outputs } = await client.predict({ inputs: inputsOf(request) });
      await expectReferenceScores(bundle, request, scoresOf(outputs), "network");
    }),
  );
  expect(server.stats.answeredRequests).toBe(requests.length);
});

test("a plugin that is not there is told of when the server starts", async () => {
  await expect(startTestServer(bundle, { device: "pjrt:/no/such/plugin.so" })).rejects.toMatchObject({
    code: "startup_failed",
    message: expect.stringContaining(hasBinding ? "/no/such/plugin.so" : "needs its native binding") as unknown,
  });
  await expect(startTestServer(bundle, { device: "pjrt:" as never })).rejects.toMatchObject({
    code: "invalid_options",
    message: 'device must be one of onnxruntime, simulated, pjrt, pjrt:/path/of/plugin.so, got "pjrt:"',
  });
});
