import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { monitorAvailability } from "./monitor.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));

test.skipIf(!monitorAvailability().available)("the README's example runs as it stands (needs Linux's /proc)", () => {
  const example = /```ts\n([^`]*[^]*?)```/.exec(readFileSync(`${folder}/README.md`, "utf8"))?.[1] ?? "";
  // The example measures for two seconds; a tenth shows as much.
  const shortened = example.replace("2000", "200");
  const { status, stdout } = spawnSync(
    process.execPath,
    ["--conditions=@dlrm/source", "--input-type=module-typescript", "-e", shortened],
    { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
  );
  expect(status).toBe(0);
  expect(stdout).toMatch(/^\d\.\d\d CPUs\npeak \d+ MiB RSS, \d+ MiB PSS\n$/);
});
