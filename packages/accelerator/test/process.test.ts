import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ModelFolder } from "./open-devices.ts";
import { TEST_PLUGINS, whatIsMissing } from "./test-plugins.ts";

const packageDir = fileURLToPath(new URL("..", import.meta.url));
let folder: ModelFolder;

beforeAll(async () => {
  folder = await ModelFolder.create();
  await mkdir(path.join(folder.dir, "node_modules/@dlrm"), { recursive: true });
  await symlink(packageDir, path.join(folder.dir, "node_modules/@dlrm/accelerator"), "dir");
});
afterAll(() => folder.remove());

/** Runs a program in a process of its own, in the folder, until it ends by itself. */
async function run(
  name: string,
  program: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ stdout: string; stderr: string }> {
  await writeFile(path.join(folder.dir, name), program);
  const args = ["--conditions=@dlrm/source", name];
  return promisify(execFile)(process.execPath, args, { cwd: folder.dir, env: { ...process.env, ...env } });
}

describe("in a process of its own", () => {
  test("the README's example runs as it stands", async () => {
    const readme = await readFile(path.join(packageDir, "README.md"), "utf8");
    const [, example = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
    // y = x · weights, with weights [[1, 0], [0, 1], [1, -1]].
    await folder.write("model.onnx", {
      inputs: [{ name: "x", shape: ["batch", 3] }],
      outputs: [{ name: "y", shape: ["batch", 2] }],
      nodes: [{ op: "MatMul", inputs: ["x", "weights"], outputs: ["y"] }],
      weights: [{ name: "weights", shape: [3, 2], data: Float32Array.of(1, 0, 0, 1, 1, -1) }],
    });
    const { stdout, stderr } = await run("example.mts", example);
    expect(stdout).toBe(`[\n   4, -1, 10, -1, 16,\n  -1, 22, -1, 28, -1\n]\n1 3\n`);
    expect(stderr).toBe("1/4 load \n2/4 warm-up 1\n3/4 warm-up 8\n4/4 warm-up 64\n");
  });

  test("onnxruntime leaves nothing in the user's folders, as its telemetry is off", async () => {
    await folder.write("model.onnx", {
      inputs: [{ name: "x", shape: ["batch", 1] }],
      outputs: [{ name: "y", shape: ["batch", 1] }],
      nodes: [{ op: "Relu", inputs: ["x"], outputs: ["y"] }],
    });
    const home = path.join(folder.dir, "home");
    await mkdir(home);
    const program = `
      import { openDevice } from "@dlrm/accelerator";
      await (await openDevice({ kind: "onnxruntime", modelPath: "model.onnx", buckets: [1] })).close();
    `;
    // Its telemetry is off in CI by itself.
    const notCi = { CI: undefined, GITHUB_ACTIONS: undefined, TF_BUILD: undefined, ORT_DISABLE_TELEMETRY: undefined };
    await run("telemetry.mts", program, { ...notCi, HOME: home, TMPDIR: home, XDG_CACHE_HOME: undefined });
    expect(await readdir(home)).toEqual([]);
  });

  const plugin = TEST_PLUGINS.at(-1)!;
  const missing = whatIsMissing(plugin);
  test.skipIf(missing !== undefined)(
    `the README's example of a program of one's own runs as it stands${missing === undefined ? "" : ` (skipped: needs ${missing})`}`,
    async () => {
      const readme = await readFile(path.join(packageDir, "README.md"), "utf8");
      const [, example = ""] = /```js\n(.*?)```/s.exec(readme) ?? [];
      const env = { PJRT_PLUGIN_PATH: plugin.pluginPath, XDG_CACHE_HOME: folder.dir };
      const { stdout } = await run("stablehlo.mjs", example, env);
      // y = x · weights, with weights [[1, 0], [0, 1], [1, -1]].
      expect(stdout).toBe("cpu [ 4, -1, 10, -1 ]\n");
    },
  );

  test("a closed device leaves nothing that holds the process, nor does one that could not be opened", async () => {
    const { stdout } = await run(
      "close.mts",
      `import { openDevice } from "@dlrm/accelerator";
       const shared = (length: number) => new Float32Array(new SharedArrayBuffer(length * 4));
       const spec = { kind: "simulated", w: shared(1), v: shared(1), buckets: [1] } as const;
       const device = await openDevice(spec);
       await device.execute(1, { dense: shared(1), pooled: shared(1) }, { scores: shared(1) });
       await device.close();
       await openDevice({ kind: "onnxruntime", modelPath: "missing.onnx", buckets: [1] }).catch(({ code }) => console.log(code));
       console.log(process.getActiveResourcesInfo().filter((name) => /Worker|MessagePort|Timeout/.test(name)).length);`,
    );
    expect(stdout).toBe("model_not_found\n0\n");
  });

  test("the onnxruntime device says what to install if onnxruntime-node is missing, and the others work", async () => {
    // A copy of the sources, out of reach of this workspace's node_modules.
    await cp(path.join(packageDir, "src"), path.join(folder.dir, "alone"), {
      recursive: true,
      filter: (file) => !file.endsWith(".test.ts"),
    });
    await writeFile(path.join(folder.dir, "alone/package.json"), '{ "type": "module" }');
    const { stdout } = await run(
      "alone/missing.ts",
      `import { openDevice } from "./index.ts";
       await openDevice({ kind: "onnxruntime", modelPath: "model.onnx", buckets: [1] }).catch(({ code, message }) => console.log(code, message));
       const device = await openDevice({ kind: "simulated", w: new Float32Array(1), v: new Float32Array(1), buckets: [1] });
       console.log(device.name);
       await device.close();`,
    );
    expect(stdout).toBe(
      'not_installed the "onnxruntime" device needs the package onnxruntime-node, which is not installed: run `npm install onnxruntime-node`\n' +
        "simulated accelerator (350 µs + 4 µs an example)\n",
    );
  });
});
