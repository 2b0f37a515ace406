import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../test/tiny-spec.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

test("the README's example runs as it stands", async () => {
  const readme = await readFile(path.join(root, "README.md"), "utf8");
  const [, example = ""] = /```js\n(.*?)```/s.exec(readme) ?? [];
  // From this folder, the package's own name leads to its sources.
  const args = ["--conditions=@dlrm/source", "--input-type=module", "--eval", example];
  const env = { ...process.env, TMPDIR: await temporaryDirectory() };
  const child = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8", env });
  expect({ status: child.status, out: child.stdout, err: child.status === 0 ? "" : child.stderr }).toEqual({
    status: 0,
    out: "2 scores between 0 and 1: true\n",
    err: "",
  });
});
