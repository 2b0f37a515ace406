import { presetSpec } from "@dlrm/model";
import { expect, it } from "vitest";
import { loadTask } from "./load-options.ts";
import { resolveSettings } from "./settings.ts";

const machine = { cpus: [0, 1], memoryBytes: 1, taskset: "/usr/bin/taskset" };
const settings = resolveSettings(
  { preset: "dcnv2-lite", duration: "5", warmup: "1", seed: "7", connections: "32", id_distribution: "zipf:1.05" },
  { machine, presets: ["dcnv2-lite"], arms: [], currentDir: "/" },
);
const step = { bReq: 16, repeat: 2 };
const mode = { kind: "closed", concurrency: 8 } as const;
const address = { host: "127.0.0.1", port: 1 };

it("is what the settings and the step say, with other requests in each repeat", () => {
  const spec = presetSpec("dcnv2-lite");
  expect(loadTask(settings, machine, spec, step, mode, address)).toEqual({
    host: "127.0.0.1",
    port: 1,
    model: "dcnv2-lite",
    shape: {
      denseFeatures: 13,
      features: spec.features.map(({ name, vocabularySize, hotSize }) => ({ name, vocabularySize, hotSize })),
    },
    requestSize: 16,
    mode,
    connections: 32,
    processes: 1,
    warmupS: 1,
    durationS: 5,
    seed: 8,
    idDistribution: { zipf: 1.05 },
    poolExamples: 16_384,
    cpus: "1",
  });
});

it("makes fewer requests for small tables, and pins nothing without taskset", () => {
  const spec = presetSpec("dcnv2-lite", { maxVocabSize: 10 });
  const task = loadTask(settings, { ...machine, taskset: undefined }, spec, step, mode, address);
  expect(task.poolExamples).toBe(1024);
  expect(task).not.toHaveProperty("cpus");
});
