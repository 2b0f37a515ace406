import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { readBundle } from "./bundle.ts";
import { main } from "./command.ts";

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  let out = "";
  let err = "";
  const output = {
    out: { write: (text: string) => (out += text) },
    err: { write: (text: string) => (err += text) },
  };
  const code = await main(args, output, new AbortController().signal);
  return { code, out, err };
}

async function tinySpecFile(): Promise<string> {
  const file = path.join(await temporaryDirectory(), "spec.json");
  await writeFile(file, JSON.stringify(TINY_SPEC));
  return file;
}

describe("export", () => {
  test("makes a preset's bundle, with the cap, seed, version and buckets of its options", async () => {
    const dir = path.join(await temporaryDirectory(), "bundle");
    const options = ["--max-vocab-size", "20", "--seed", "5", "--model-version", "v2", "--buckets", "1,8"];
    const result = await run("export", "--preset", "dcnv2-lite", "--out", dir, ...options);
    expect(result).toMatchObject({ code: 0, out: `${dir}: dcnv2-lite, seed 5\n` });
    const bundle = await readBundle(dir);
    expect(bundle).toMatchObject({ name: "dcnv2-lite", seed: 5, version: "v2", buckets: [1, 8] });
    expect(Math.max(...bundle.spec.features.map(({ vocabularySize }) => vocabularySize))).toBe(20);
  });

  test("makes a bundle of a spec in a file, and shows progress on standard error unless told not to", async () => {
    const [file, dir] = [await tinySpecFile(), path.join(await temporaryDirectory(), "bundle")];
    const loud = await run("export", "--spec", file, "--out", dir);
    expect(loud).toMatchObject({ code: 0, out: `${dir}: tiny, seed 1\n` });
    expect(loud.err).toMatch(new RegExp(`^writing ${dir}: 0.000 of 0.000 GB \\(\\d+ %\\)\n$`));
    const quiet = await run("export", "--spec", file, "--out", `${dir}2`, "--quiet");
    expect(quiet.err).toBe("");
  });

  test("refuses what exists; with --if-missing is content with the same bundle", async () => {
    const [file, dir] = [await tinySpecFile(), path.join(await temporaryDirectory(), "bundle")];
    await run("export", "--spec", file, "--out", dir);
    expect(await run("export", "--spec", file, "--out", dir)).toEqual({
      code: 1,
      out: "",
      err: `error: ${dir} exists already and is left as it is\n`,
    });
    expect(await run("export", "--spec", file, "--out", dir, "--if-missing")).toEqual({
      code: 0,
      out: `${dir}: tiny, seed 1, was there already\n`,
      err: "",
    });
  });

  test.each<[string, string[], RegExp]>([
    ["no model", [], /^error: one of --preset and --spec is needed; presets: dcnv2-6m, dcnv2-smoke, dcnv2-lite\n$/],
    [
      "an unknown preset",
      ["--preset", "dcnv2"],
      /argument 'dcnv2' is invalid. Allowed choices are dcnv2-6m, dcnv2-smoke, dcnv2-lite/,
    ],
    [
      "both kinds of model",
      ["--preset", "dcnv2-lite", "--spec", "x"],
      /'--preset <name>' cannot be used with option '--spec <file>'/,
    ],
    [
      "a misspelt option",
      ["--preset", "dcnv2-lite", "--sed", "1"],
      /unknown option '--sed'\n\(Did you mean --seed\?\)/,
    ],
    [
      "a seed that is no number",
      ["--seed", "1e3"],
      /option '--seed <number>' argument '1e3' is invalid. expected a non-negative integer/,
    ],
    [
      "a seed too large",
      ["--preset", "dcnv2-lite", "--seed", "4294967296"],
      /^error: seed: expected an integer from 0 to 4294967295/,
    ],
    [
      "a cap of no rows",
      ["--preset", "dcnv2-lite", "--max-vocab-size", "0"],
      /^error: maxVocabSize: expected a positive integer, got 0/,
    ],
    ["a cap on a spec", ["--spec", "x", "--max-vocab-size", "5"], /^error: --max-vocab-size caps a preset's tables/],
  ])("with %s is wrong usage, code 2", async (_name, args, message) => {
    const parent = await temporaryDirectory();
    const result = await run("export", "--out", path.join(parent, "bundle"), ...args);
    expect(result).toMatchObject({ code: 2, out: "" });
    expect(result.err).toMatch(message);
    expect(await readdir(parent)).toEqual([]);
  });

  test("needs a directory, but names a misspelt option before", async () => {
    expect(await run("export", "--preset", "dcnv2-lite")).toEqual({
      code: 2,
      out: "",
      err: "error: required option '--out <dir>' not specified\n",
    });
    expect(await run("export", "--preset", "dcnv2-lite", "--ouut", "bundle")).toEqual({
      code: 2,
      out: "",
      err: "error: unknown option '--ouut'\n(Did you mean --out?)\n",
    });
  });

  test("shows every problem of a spec", async () => {
    const file = path.join(await temporaryDirectory(), "spec.json");
    await writeFile(file, JSON.stringify({ ...TINY_SPEC, embeddingDim: 0, denseFeatures: 0 }));
    const result = await run("export", "--spec", file, "--out", path.join(await temporaryDirectory(), "bundle"));
    expect(result.code).toBe(2);
    expect(result.err.split("\n").filter((line) => line.startsWith("- "))).toHaveLength(3);
    await writeFile(file, "{");
    expect((await run("export", "--spec", file, "--out", "bundle")).err).toMatch(
      `error: ${file} is not JSON: SyntaxError`,
    );
  });

  test.skipIf(process.platform === "win32").each(["SIGINT", "SIGTERM"] as const)(
    "ended by %s deletes what it wrote and exits with 130 (needs POSIX signals)",
    async (signal) => {
      const parent = await temporaryDirectory();
      const cli = fileURLToPath(new URL("cli.ts", import.meta.url));
      const args = ["export", "--preset", "dcnv2-6m", "--out", path.join(parent, "bundle")];
      const child = spawn(process.execPath, [cli, ...args], { stdio: ["ignore", "ignore", "pipe"] });
      let err = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        err += text;
      });
      // The first progress: the file is being written.
      await once(child.stderr, "data");
      expect(await readdir(parent)).toHaveLength(1);
      child.kill(signal);
      const [code] = (await once(child, "close")) as [number | null];
      expect({ code, lastLine: err.trimEnd().split("\n").at(-1) }).toEqual({
        code: 130,
        lastLine: "interrupted; nothing is left behind",
      });
      expect(await readdir(parent)).toEqual([]);
    },
  );
});

describe("verify", () => {
  test("is content with a bundle, and names a changed file", async () => {
    const [file, dir] = [await tinySpecFile(), path.join(await temporaryDirectory(), "bundle")];
    await run("export", "--spec", file, "--out", dir);
    expect(await run("verify", dir, "--quiet")).toEqual({
      code: 0,
      out: `${dir}: every file is as model.json says\n`,
      err: "",
    });
    const tables = path.join(dir, "tables.safetensors");
    const bytes = await readFile(tables);
    await writeFile(tables, bytes.fill(0, bytes.length - 1));
    const result = await run("verify", dir, "--quiet");
    expect(result).toMatchObject({ code: 1, out: "" });
    expect(result.err).toMatch(new RegExp(`^error: ${dir}: tables.safetensors: expected SHA-256 .*\n$`));
  });

  test("needs a directory, and says if it is no bundle", async () => {
    expect(await run("verify")).toMatchObject({ code: 2, err: "error: missing required argument 'dir'\n" });
    expect((await run("verify", "/nowhere")).err).toMatch(
      /^error: \/nowhere is not a bundle: model.json cannot be read/,
    );
  });
});

describe("info", () => {
  test("describes the model for people, or as JSON", async () => {
    const [file, dir] = [await tinySpecFile(), path.join(await temporaryDirectory(), "bundle")];
    await run("export", "--spec", file, "--out", dir, "--buckets", "1,2");
    const { out } = await run("info", dir);
    expect(out.split("\n").slice(0, 15)).toEqual([
      "tiny, version 1, seed 1",
      "",
      "tables         3, 1,508 rows of 5 float32, 0 MB",
      "row reads      7 an example",
      "dense features 3",
      "bottom MLP     6-5",
      "cross layers   2, projection 4",
      "top MLP        9-7-1",
      "dense weights  686, 0 MB; 0.0 MFLOP an example",
      "buckets        1 2",
      "",
      "feature     vocabulary  hot size",
      "country              7         1",
      "clicks           1,500         4",
      "constant             1         2",
    ]);
    expect(JSON.parse((await run("info", dir, "--json")).out)).toEqual(await readBundle(dir));
  });
});

test("help goes to standard output, with code 0; no command is wrong usage", async () => {
  const help = await run("--help");
  expect(help).toMatchObject({ code: 0, err: "" });
  expect(help.out).toMatch(/export .*\n.*\n?.*verify .*\n?.*\n.*info /s);
  expect((await run("--version")).out).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect((await run()).code).toBe(2);
  expect((await run("exprot")).err).toMatch(/unknown command 'exprot'\n\(Did you mean export\?\)/);
});
