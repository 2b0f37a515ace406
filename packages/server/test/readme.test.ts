import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { runServeCommand } from "@dlrm/server";
import { expect, test, vi } from "vitest";
import { expectReferenceScores } from "./example-requests.ts";
import { PREDICT_PATH } from "./raw-http2.ts";
import { baseUrl, startTestServer, temporaryBundle, TINY_SPEC } from "./serving-fixture.ts";

const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");

test("the README's script makes a request that gets the reference's scores", async () => {
  const script = /```js\n(\/\/ predict-body\.mjs.*?)```/su.exec(readme)?.[1] ?? "";
  await using bundle = await temporaryBundle();
  await using server = await startTestServer(bundle);
  const dir = await mkdtemp(path.join(tmpdir(), "dlrm-readme-"));
  try {
    const file = path.join(dir, "predict-body.mjs");
    await writeFile(file, script);
    const post = (method: string, body: string): Promise<Response> =>
      fetch(`${baseUrl(server.port)}${method}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
    const metadata = await (await post("/dlrm.serving.v1.PredictionService/GetModelMetadata", "{}")).text();
    const { stdout } = spawnSync(process.execPath, [file, "3"], { input: metadata, encoding: "utf8" });
    const { inputs } = JSON.parse(stdout) as { inputs: Record<string, { data: string }> };
    const bytesOf = (name: string): ArrayBuffer =>
      Uint8Array.from(Buffer.from(inputs[name]?.data ?? "", "base64")).buffer;
    const answer = (await (await post(PREDICT_PATH, stdout)).json()) as { outputs: { scores: { data: string } } };
    const scores = new Float32Array(Uint8Array.from(Buffer.from(answer.outputs.scores.data, "base64")).buffer);
    const request = {
      batch: 3,
      dense: new Float32Array(bytesOf("dense")),
      ids: TINY_SPEC.features.map(({ name }) => new Int32Array(bytesOf(name))),
    };
    await expectReferenceScores(bundle, request, [...scores]);
    expect(server.stats.answeredExamples).toBe(3);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

test("the README names every flag, and no other", async () => {
  let help = "";
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    help += String(text);
    return true;
  });
  try {
    expect(await runServeCommand(["--help"])).toBe(0);
  } finally {
    write.mockRestore();
  }
  const flagsIn = (text: string): string[] => [
    ...new Set([...text.matchAll(/--[a-z][a-z-]+/gu)].map(([flag]) => flag)),
  ];
  const table = readme.slice(readme.indexOf("| flag |"), readme.indexOf("`--help` prints"));
  const inTable = [...table.matchAll(/^\| `(--[a-z-]+)/gmu)].map(([, flag]) => flag);
  expect(inTable).toEqual(flagsIn(help).filter((flag) => flag !== "--help" && flag !== "--version"));
});
