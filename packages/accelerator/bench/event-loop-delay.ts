import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { allocateTensor, openDevice, type Device } from "@dlrm/accelerator";
import { Examples, exportDenseNetwork } from "../test/dense-network.ts";
import { denseNetworkSpecs, figureName } from "./dense-network-specs.ts";
import { figure, type Figure } from "./figures.ts";

// How late the caller's event loop is while DLRM-DCNv2's dense network runs on one core, in batches of 1,024.

const BATCH = 1024;
const ROUNDS = 3;
/** In flight together: the caller hands the next over while one runs. */
const CALLS = 3;
const RESOLUTION_MS = 1;

async function delayP99Ms(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  await work();
  delay.disable();
  // The monitor's own interval is in every sample.
  return Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS);
}

/** With each of onnxruntime and PJRT in float32, the worse of the two, and, in the same rounds, with a device that does nothing. */
export async function eventLoopFigures(): Promise<Figure[]> {
  const folder = await mkdtemp(path.join(tmpdir(), "dlrm-accelerator-loop-"));
  try {
    const network = await exportDenseNetwork(path.join(folder, "bundle"), [BATCH]);
    const measured: { name: string; device: Device; running: number[]; busyMs: number[] }[] = [];
    for (const each of denseNetworkSpecs(network, BATCH).filter(({ precision }) => precision === "float32")) {
      const device = await openDevice({ ...each.spec, warmUpBudgetMs: Number.POSITIVE_INFINITY });
      measured.push({ name: figureName(each), device, running: [], busyMs: [] });
    }
    const inputs = new Examples(BATCH).batch(BATCH);
    const outputs = Array.from({ length: CALLS }, () => ({ scores: allocateTensor(BATCH) }));
    const idle: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      let tookMs = 0;
      for (const { device, running, busyMs } of measured) {
        const before = device.stats.busyMicros;
        const calls = () => Promise.all(outputs.map((each) => device.execute(BATCH, inputs, each)));
        running.push(await delayP99Ms(calls));
        tookMs = (device.stats.busyMicros - before) / 1000;
        busyMs.push(tookMs / CALLS);
      }
      idle.push(await delayP99Ms(() => new Promise((resolve) => setTimeout(resolve, tookMs))));
    }
    await Promise.all(measured.map(({ device }) => device.close()));
    return [
      figure(
        "event_loop_delay_p99_ms",
        "ms",
        idle.map((_, round) => Math.max(...measured.map(({ running }) => running[round]!))),
      ),
      ...measured.flatMap(({ name, running, busyMs }) => [
        figure(`event_loop_delay_${name}_p99_ms`, "ms", running),
        figure(`event_loop_${name}_b${BATCH}_busy_ms`, "ms", busyMs),
      ]),
      figure("event_loop_delay_idle_p99_ms", "ms", idle),
    ];
  } finally {
    await rm(folder, { recursive: true });
  }
}
