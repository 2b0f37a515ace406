import { expect, it } from "vitest";
import { describePinning, pinningProblem } from "./run-description.ts";
import { resolveSettings } from "./settings.ts";

const machine = { cpus: [0, 1, 2, 3], memoryBytes: 1, taskset: "/usr/bin/taskset" };
const settingsOf = (flags: Record<string, string>): ReturnType<typeof resolveSettings> =>
  resolveSettings(flags, { machine, presets: ["dcnv2-lite"], arms: [], currentDir: "/" });

it("has no problem with CPUs of their own", () => {
  expect(pinningProblem(settingsOf({}), machine)).toBeUndefined();
  expect(describePinning(settingsOf({}), machine)).toBe("server on 0-1, client on 2-3, each thread checked");
});

it("names the CPUs that server and client share", () => {
  const settings = settingsOf({ server_cpus: "0-2", client_cpus: "1-3" });
  expect(pinningProblem(settings, machine)).toBe(
    "server and load generator shared the CPUs 1-2: what one of them used, the other one had not",
  );
  expect(describePinning(settings, machine)).toBe("server on 0-2, client on 1-3, each thread checked; they share CPUs");
});

it("says that nothing was pinned without taskset", () => {
  expect(pinningProblem(settingsOf({}), { ...machine, taskset: undefined })).toBe(
    "nothing was pinned, since there is no taskset: server and load generator shared all CPUs",
  );
});
