import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { LifeLine } from "../test/fake-arm.ts";
import { tempFolder } from "../test/temp-folder.ts";
import { freePort } from "./free-port.ts";
import { ProcessGuard, signalGroup } from "./process-guard.ts";

it.each(["SIGKILL", "SIGTERM"] as const)("no server outlives a bench that %s ends", async (signal) => {
  const lifeLine = await LifeLine.open();
  const logFile = path.join(tempFolder("guard"), "server.log");
  const entry = fileURLToPath(new URL("../test/guarded-process.ts", import.meta.url));
  const port = String(await freePort("127.0.0.1"));
  const bench = spawn(process.execPath, ["--conditions=@dlrm/source", entry, port, String(lifeLine.port), logFile], {
    stdio: "ignore",
  });
  const { ended } = await lifeLine.connected();
  bench.kill(signal);
  expect(await once(bench, "exit")).toEqual([null, signal]);
  await ended;
  lifeLine.close();
});

it("kills what it guards, and forgets what ended", async () => {
  const guard = new ProcessGuard();
  const kept = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { detached: true, stdio: "ignore" });
  const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { detached: true, stdio: "ignore" });
  guard.add(kept.pid as number);
  guard.add(other.pid as number);
  guard.remove(other.pid as number);
  guard.close();
  expect(await once(kept, "exit")).toEqual([null, "SIGKILL"]);
  expect(signalGroup(other.pid as number, "SIGKILL")).toBe(true);
  expect(await once(other, "exit")).toEqual([null, "SIGKILL"]);
  expect(signalGroup(other.pid as number, "SIGKILL")).toBe(false);
});
