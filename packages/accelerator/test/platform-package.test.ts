import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PLATFORMS, loadPjrtNative, tryInOrder } from "../src/pjrt-native.ts";

const packageDir = path.resolve(fileURLToPath(import.meta.url), "../..");
const script = path.join(packageDir, "native/platform-package.mts");
let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "platform-package-"));
});
afterAll(() => rm(dir, { recursive: true }));

const run = (...args: string[]) => promisify(execFile)(process.execPath, [...process.execArgv, script, ...args]);
const workflow = path.resolve(packageDir, "../../.github/workflows/bindings.yml");
const platformsOfWorkflow = async () =>
  Array.from((await readFile(workflow, "utf8")).matchAll(/\{ platform: ([\w-]+),/g), ([, platform]) => platform);
const readJson = async (file: string) => JSON.parse(await readFile(file, "utf8")) as Record<string, unknown>;

test("makes a package that npm installs on its platform only", async () => {
  const library = path.join(dir, "library");
  await writeFile(library, "bytes");
  const made = path.join(dir, "musl");
  await run("make", made, "--platform", "linux-arm64-musl", "--library", library);
  expect((await readdir(made)).sort()).toEqual(["dlrm-pjrt.linux-arm64-musl.node", "package.json"]);
  const { version } = await readJson(path.join(packageDir, "package.json"));
  expect(await readJson(path.join(made, "package.json"))).toMatchObject({
    name: "@dlrm/accelerator-linux-arm64-musl",
    version,
    main: "dlrm-pjrt.linux-arm64-musl.node",
    files: ["dlrm-pjrt.linux-arm64-musl.node"],
    os: ["linux"],
    cpu: ["arm64"],
    libc: ["musl"],
  });
});

test.runIf("binding" in loadPjrtNative())("makes a package that the loader takes", async () => {
  const made = path.join(dir, "own");
  await run("make", made);
  expect(tryInOrder([path.join(dir, "absent"), made])).toHaveProperty("binding");
});

test("adds the packages of all platforms to a manifest, at its own version", async () => {
  const manifest = path.join(dir, "package.json");
  await copyFile(path.join(packageDir, "package.json"), manifest);
  await run("require", manifest);
  const before = await readJson(path.join(packageDir, "package.json"));
  expect(before).not.toHaveProperty("optionalDependencies");
  const optionalDependencies = Object.fromEntries(
    Object.keys(PLATFORMS).map((platform) => [`@dlrm/accelerator-${platform}`, before["version"]]),
  );
  expect(await readJson(manifest)).toEqual({ ...before, optionalDependencies });
});

test("refuses platforms and commands it does not know", async () => {
  await expect(run("make", dir, "--platform", "plan9-x64")).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining("platform is plan9-x64, expected one of linux-x64-gnu,") as unknown,
  });
  await expect(run("publish", dir)).rejects.toMatchObject({ code: 2 });
  await expect(run("make")).rejects.toMatchObject({ code: 2 });
});

test("the workflow that builds packages has all of their platforms, and Windows for those that have it", async () => {
  expect(new Set(await platformsOfWorkflow())).toEqual(new Set([...Object.keys(PLATFORMS), "win32-x64"]));
});
