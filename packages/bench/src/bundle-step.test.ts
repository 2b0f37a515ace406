import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { prepareBundle } from "./bundle-step.ts";
import { bundleDir } from "./commands.ts";
import { Progress } from "./progress.ts";
import { resolveSettings } from "./settings.ts";

let shown: string;

function prepare(workDir: string): ReturnType<typeof prepareBundle> {
  const settings = settingsIn(workDir);
  shown = "";
  return prepareBundle(settings, new Progress({ write: (text) => (shown += text) }), new AbortController().signal);
}

function settingsIn(workDir: string): ReturnType<typeof resolveSettings> {
  return resolveSettings(
    { preset: "dcnv2-lite", max_vocab_size: "3", work_dir: workDir },
    {
      machine: { cpus: [0, 1], memoryBytes: 8e9, taskset: undefined },
      presets: ["dcnv2-lite"],
      arms: [{ name: "engine", platforms: ["cpu"] }],
      currentDir: "/",
    },
  );
}

let workDir: string;

beforeAll(() => {
  workDir = mkdtempSync(path.join(tmpdir(), "bench-bundle-"));
  return () => rmSync(workDir, { recursive: true });
});

it("makes the model once, and then finds it", async () => {
  const { dir } = await prepare(workDir);
  expect(dir).toBe(path.join(workDir, "bundles", "dcnv2-lite-3"));
  expect(shown).toContain(`made: ${dir}`);
  await prepare(workDir);
  expect(shown).toContain(`there already: ${dir}`);
});

it.each([
  [
    "cut off",
    (dir: string) => truncateSync(path.join(dir, "tables.safetensors"), 100),
    /tables\.safetensors: expected \d+ bytes, got 100/,
  ],
  ["no JSON", (dir: string) => writeFileSync(path.join(dir, "model.json"), "{"), /model\.json is not JSON/],
])("a model that is %s is refused with what to do, and made anew once it is removed", async (_, damage, problem) => {
  const own = mkdtempSync(path.join(tmpdir(), "bench-bundle-"));
  onTestFinished(() => rmSync(own, { recursive: true }));
  await prepare(own);
  const dir = bundleDir(settingsIn(own));
  damage(dir);
  const refused = prepare(own);
  await expect(refused).rejects.toMatchObject({ code: "prepare_failed", message: expect.stringMatching(problem) });
  await expect(refused).rejects.toThrow(/: remove that folder, and it is made anew$/);
  rmSync(dir, { recursive: true });
  await prepare(own);
  expect(shown).toContain(`made: ${dir}`);
});
