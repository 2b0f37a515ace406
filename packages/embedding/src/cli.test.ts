import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { float32Tensor, writeSafetensors } from "../test/tables.ts";
import { openEmbeddingStore } from "./embedding-store.ts";

const cli = fileURLToPath(new URL("./cli.ts", import.meta.url));
let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "embedding-cli-"));
  await writeSafetensors(join(dir, "tables.safetensors"), {
    a: float32Tensor(2, 3, [0, 127.5, 255, 1, 1, 1]),
    b: float32Tensor(1, 2, [-1, 254]),
  });
  await writeSafetensors(join(dir, "dense.safetensors"), { "simulated.v": float32Tensor(1, 5, [0.01, 0, 0, 0.02, 0]) });
  const features = [
    { name: "a", hotSize: 2, pooling: "sum" },
    { name: "b", hotSize: 1, pooling: "mean" },
  ];
  await writeFile(join(dir, "model.json"), JSON.stringify({ spec: { features } }));
});
afterAll(() => rm(dir, { recursive: true }));

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    return {
      code: 0,
      ...(await promisify(execFile)(process.execPath, [...process.execArgv, cli, ...args], { cwd: dir })),
    };
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string };
  }
}

test("quantize converts a file that opens, and reports errors of tables and scores", async () => {
  const { code, stdout } = await run(
    ...["quantize", "--in", "tables.safetensors", "--out", "int8.safetensors", "--dtype", "int8"],
    ...["--bundle", ".", "--examples", "64"],
  );
  expect(code).toBe(0);
  // 127.5 lies half way between two codes.
  expect(stdout).toContain("a: float32 to int8, 1.09 times smaller, error max 5.000e-1, RMS 2.041e-1");
  expect(stdout).toContain("b: float32 to int8, 0.80 times smaller, error max 0.000e+0, RMS 0.000e+0");
  expect(stdout).toContain(
    "scores of the simulated network over 64 random examples: change max 0.000e+0, mean 0.000e+0",
  );
  expect((await readdir(dir)).filter((file) => file.endsWith(".tmp"))).toEqual([]);
  const store = await openEmbeddingStore({ safetensors: join(dir, "int8.safetensors") });
  expect(store.tables.map(({ name, rows, dim, dtype }) => [name, rows, dim, dtype])).toEqual([
    ["a", 2, 3, "int8"],
    ["b", 1, 2, "int8"],
  ]);
  const output = new Float32Array(5);
  const plan = store.plan([
    { table: "a", hotSize: 1 },
    { table: "b", hotSize: 1 },
  ]);
  plan.gather(Int32Array.of(0, 0), 1, output, 0);
  expect(Array.from(output)).toEqual([0, 128, 255, -1, 254]);
  store.close();
});

test("scores by a module that is given, which gets dense features and both tables' pooled vectors", async () => {
  await writeFile(
    join(dir, "scorer.mjs"),
    `export const openEmbeddingScorer = (bundle) => ({
      denseFeatures: 2,
      score: (dense, pooled, batch) => {
        if (bundle !== "." || dense.length !== batch * 2 || dense.some((value) => value < 0 || value >= 1)) throw new Error("bad");
        return Array.from({ length: batch }, (_, b) => pooled[b * 5 + 1]);
      },
    });`,
  );
  await writeFile(join(dir, "none.mjs"), "export const a = 1;");
  const quantize = ["quantize", "--in", "tables.safetensors", "--out", "scored.safetensors", "--dtype", "int8"];
  const { stdout } = await run(...quantize, "--bundle", ".", "--scorer", "./scorer.mjs", "--examples", "70");
  // 127.5 becomes 128: the pooled vector of two ids is off by 0, 0.5 or 1.
  expect(stdout).toMatch(
    /scores of \.\/scorer\.mjs over 70 random examples: change max 1\.000e\+0, mean [3-7]\.\d+e-1\n/,
  );
  expect((await run(...quantize, "--bundle", ".", "--scorer", "./none.mjs")).stderr).toContain(
    "scorer ./none.mjs exports no function openEmbeddingScorer",
  );
  expect((await run(...quantize, "--bundle", ".", "--scorer", "./absent.mjs")).stderr).toMatch(
    /dlrm-embedding: cannot load scorer \.\/absent\.mjs: Cannot find module/,
  );
});

test.each([
  [["quantize", "--scorer", "x"], /--scorer needs --bundle/],
  [["quantise"], /command is "quantise", expected quantize/],
  [["quantize", "--in", "x"], /--in and --out are needed/],
  [["quantize", "--in", "x", "--out", "y", "--dtype", "int2"], /--dtype is int2, expected float16/],
  [["quantize", "--inn", "x"], /^dlrm-embedding: unknown option --inn; did you mean --in\?\n/],
  [["quantize", "--ot", "x"], /^dlrm-embedding: unknown option --ot; did you mean --out\?\n/],
  [["quantize", "--dtipe", "x"], /^dlrm-embedding: unknown option --dtipe; did you mean --dtype\?\n/],
  [["quantize", "--threads", "x"], /^dlrm-embedding: unknown option --threads\n/],
])("%j is a usage error", async (args, message) => {
  const { code, stderr } = await run(...args);
  expect(code).toBe(2);
  expect(stderr).toMatch(message);
  expect(stderr).toContain("Usage: dlrm-embedding quantize");
});

test.each(["--version", "-V"])("%s says the package's", async (flag) => {
  const text = await readFile(new URL("../package.json", import.meta.url), "utf8");
  const { version } = JSON.parse(text) as { version: string };
  expect(await run(flag)).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test("a file that cannot be read is a failure, and leaves nothing", async () => {
  const { code, stderr } = await run("quantize", "--in", "absent", "--out", "out", "--dtype", "int8");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^dlrm-embedding: cannot open absent/);
  expect(await readdir(dir)).not.toContain("out");
});
