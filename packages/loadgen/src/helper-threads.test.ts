import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const SOURCE = fileURLToPath(new URL("helper-threads.ts", import.meta.url));
const LOWEST_PRIORITY = 19;
const namesThreads = process.platform === "linux" && Number(process.versions.node.split(".")[0]) >= 24;

test.runIf(namesThreads)("V8's helpers get the lowest priority, all other threads keep theirs", () => {
  // In a process of its own: a priority cannot be raised again.
  const script = `
    import { readdirSync, readFileSync } from "node:fs";
    import { getPriority } from "node:os";
    import { deferHelperThreads } from ${JSON.stringify(SOURCE)};
    const before = getPriority();
    const helpers = deferHelperThreads();
    const priorities = readdirSync("/proc/self/task").map((thread) => ({
      isHelper: readFileSync("/proc/self/task/" + thread + "/comm", "utf8") === "V8Worker\\n",
      priority: getPriority(Number(thread)),
    }));
    console.log(JSON.stringify({ before, helpers, priorities }));
  `;
  const args = ["--v8-pool-size=3", "--no-warnings", "--input-type=module", "-e", script];
  const { before, helpers, priorities } = JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" })) as {
    readonly before: number;
    readonly helpers: number;
    readonly priorities: readonly { readonly isHelper: boolean; readonly priority: number }[];
  };
  expect(helpers).toBe(3);
  expect(priorities.filter(({ isHelper }) => isHelper).map(({ priority }) => priority)).toEqual(
    Array.from({ length: 3 }, () => LOWEST_PRIORITY),
  );
  const others = priorities.filter(({ isHelper }) => !isHelper);
  expect(others.length).toBeGreaterThan(0);
  expect(others.every(({ priority }) => priority === before)).toBe(true);
});

test.runIf(process.platform !== "linux")("where threads have no priorities, nothing happens", async () => {
  const { deferHelperThreads } = await import("./helper-threads.ts");
  expect(deferHelperThreads()).toBe(0);
});
