import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { openDevice, type Device, type SimulatedSpec } from "@dlrm/accelerator";
import { expectedScores, makeBatch, V, W } from "../test/open-devices.ts";

// A simulated accelerator of as many microseconds as the test says stands for a slow device.
function simulated(options: Partial<SimulatedSpec>): SimulatedSpec {
  return { kind: "simulated", w: W, v: V, buckets: [1], fixedMicros: 0, microsPerExample: 0, ...options };
}

/** Longer than any test lasts: a call that never ends. */
const FOR_EVER_MICROS = 1e12;

async function openWithWorker(spec: SimulatedSpec): Promise<{ device: Device; worker: Worker }> {
  const created = once(process, "worker") as Promise<[Worker]>;
  const device = await openDevice(spec);
  const [worker] = await created;
  return { device, worker };
}

describe("the queue of a device", () => {
  test("refuses one call more than maxQueuedCalls", async () => {
    const { device, worker } = await openWithWorker(simulated({ fixedMicros: FOR_EVER_MICROS, maxQueuedCalls: 3 }));
    const batch = makeBatch(1);
    const calls = [1, 2, 3].map(() => device.execute(1, batch.inputs, batch.outputs));
    const outcomes = Promise.allSettled(calls);
    expect(device.stats.inFlight).toBe(3);
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject({
      code: "queue_full",
      message: "3 calls wait or run, and maxQueuedCalls is no more; try again when one has ended",
    });
    expect(device.stats.inFlight).toBe(3);
    await worker.terminate();
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    await device.close();
  });

  test("takes back a call that waits, at once", async () => {
    const { device, worker } = await openWithWorker(simulated({ fixedMicros: FOR_EVER_MICROS }));
    const [first, second] = [makeBatch(1, 1), makeBatch(1, 2)];
    const controller = new AbortController();
    const running = Promise.allSettled([device.execute(1, first.inputs, first.outputs)]);
    const waiting = device.execute(1, second.inputs, second.outputs, { signal: controller.signal });
    controller.abort(new Error("the client left"));
    await expect(waiting).rejects.toMatchObject({ code: "cancelled", cause: { message: "the client left" } });
    await worker.terminate();
    expect(await running).toMatchObject([{ status: "rejected", reason: { code: "device_lost" } }]);
    await device.close();
  });

  test("passes over a call that was taken back: its buffers stay as they are, and those behind it run", async () => {
    const device = await openDevice(simulated({ fixedMicros: 50_000 }));
    const batches = [1, 2, 3, 4, 5, 6].map((seed) => makeBatch(1, seed));
    const controller = new AbortController();
    const options = batches.map((_, i) => (i === 4 ? { signal: controller.signal } : {}));
    const calls = batches.map((batch, i) => device.execute(1, batch.inputs, batch.outputs, options[i]));
    controller.abort();
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.map(({ status }) => status)).toEqual(batches.map((_, i) => (i === 4 ? "rejected" : "fulfilled")));
    expect(batches[4]!.outputs.scores[0]).toBe(-1);
    expect(batches[5]!.outputs.scores[0]).toBeCloseTo(expectedScores(batches[5]!, 1)[0]!, 6);
    expect(device.stats).toMatchObject({ executions: 5, cancellations: 1, inFlight: 0 });
    await device.close();
  });

  test("ends a call that runs already as if its signal were not aborted", async () => {
    const device = await openDevice(simulated({ fixedMicros: 20_000 }));
    const [first, second] = [makeBatch(1, 1), makeBatch(1, 2)];
    const controller = new AbortController();
    const blocker = device.execute(1, first.inputs, first.outputs);
    const call = device.execute(1, second.inputs, second.outputs, { signal: controller.signal });
    await blocker;
    // Scores are written before the simulated device sleeps: once they are there, it has begun.
    while (second.outputs.scores[0] === -1) await nextTurn();
    controller.abort();
    await expect(call).resolves.toBeUndefined();
    expect(device.stats).toMatchObject({ executions: 2, cancellations: 0 });
    await device.close();
  });

  test("keeps going through many more calls than it has slots", async () => {
    const device = await openDevice(simulated({ maxQueuedCalls: 3 }));
    for (let round = 0; round < 50; round++) {
      const batches = [1, 2, 3].map((seed) => makeBatch(1, round * 3 + seed));
      await Promise.all(batches.map((batch) => device.execute(1, batch.inputs, batch.outputs)));
      for (const batch of batches) expect(batch.outputs.scores[0]).toBeCloseTo(expectedScores(batch, 1)[0]!, 6);
    }
    expect(device.stats.executions).toBe(150);
    await device.close();
  });

  test("never blocks the caller's event loop", async () => {
    const { device, worker } = await openWithWorker(simulated({ fixedMicros: FOR_EVER_MICROS }));
    const batch = makeBatch(1);
    const call = device.execute(1, batch.inputs, batch.outputs);
    const outcome = Promise.allSettled([call]);
    while (batch.outputs.scores[0] === -1) await nextTurn();
    // The device is in the middle of the call, for ever; the loop turns all the same.
    for (let turn = 0; turn < 1000; turn++) await nextTurn();
    expect(device.stats.inFlight).toBe(1);
    await worker.terminate();
    expect(await outcome).toMatchObject([{ status: "rejected", reason: { code: "device_lost" } }]);
    await device.close();
  });
});

/** Looks for calls that have ended, and lets the loop not turn, until none is in flight; gives up after some seconds. */
function settleInThisTurn(device: Device): void {
  const giveUpAtMs = performance.now() + 10_000;
  while (device.stats.inFlight > 0 && performance.now() < giveUpAtMs) device.settleEnded();
}

describe("settleEnded", () => {
  test.each([
    ["that stays lost if it is lost", {}],
    ["that is opened again when it is lost", { reopen: {} }],
  ])("settles what a device %s has ended, without a turn of the caller's loop", async (_, options) => {
    const device = await openDevice(simulated({ buckets: [1, 2], fixedMicros: 100, ...options }));
    const batches = [makeBatch(1, 1), makeBatch(2, 2)] as const;
    const ended: string[] = [];
    setImmediate(() => ended.push("turn"));
    const calls = batches.map(async ({ inputs, outputs }, i) => {
      await device.execute(i + 1, inputs, outputs);
      ended.push(`call ${i}`);
    });
    settleInThisTurn(device);
    expect(device.stats).toMatchObject({ executions: 2, rows: 3, inFlight: 0 });
    await Promise.all(calls);
    expect(ended).toEqual(["call 0", "call 1"]);
    for (const [i, batch] of batches.entries()) {
      expect(batch.outputs.scores[i]).toBeCloseTo(expectedScores(batch, i + 1)[i]!, 6);
    }
    // The end of a later call is noticed by the loop as ever.
    await device.execute(1, batches[0].inputs, batches[0].outputs);
    expect(device.stats.executions).toBe(3);
    await device.close();
    device.settleEnded();
  });

  test("leaves what runs, and a device that is lost", async () => {
    const { device, worker } = await openWithWorker(simulated({ fixedMicros: FOR_EVER_MICROS }));
    const batch = makeBatch(1);
    const outcome = Promise.allSettled([device.execute(1, batch.inputs, batch.outputs)]);
    device.settleEnded();
    expect(device.stats).toMatchObject({ executions: 0, inFlight: 1 });
    await worker.terminate();
    expect(await outcome).toMatchObject([{ status: "rejected", reason: { code: "device_lost" } }]);
    device.settleEnded();
    expect(device.stats).toMatchObject({ executions: 0, inFlight: 0 });
    await device.close();
  });
});

test("a simulated device is busy for at least its time", async () => {
  const device = await openDevice(simulated({ buckets: [1, 8], fixedMicros: 3000, microsPerExample: 500 }));
  const batch = makeBatch(8);
  await device.execute(1, batch.inputs, batch.outputs);
  await device.execute(8, batch.inputs, batch.outputs);
  const [one, eight] = device.stats.byBucket;
  expect(one!.busyMicros).toBeGreaterThanOrEqual(3500);
  expect(eight!.busyMicros).toBeGreaterThanOrEqual(7000);
  await device.close();
});

describe("a device that is lost", () => {
  test("rejects every pending and every later call, and can be opened again", async () => {
    const { device, worker } = await openWithWorker(simulated({ fixedMicros: FOR_EVER_MICROS }));
    const batch = makeBatch(1);
    const calls = [1, 2].map(() => device.execute(1, batch.inputs, batch.outputs));
    const outcomes = Promise.allSettled(calls);
    await worker.terminate();
    const lost = { code: "device_lost", message: `the thread of ${device.name} ended with code 1` };
    for (const outcome of await outcomes) expect(outcome).toMatchObject({ status: "rejected", reason: lost });
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject(lost);
    expect(device.stats.inFlight).toBe(0);
    await device.close();

    const again = await openDevice(simulated({}));
    await again.execute(1, batch.inputs, batch.outputs);
    expect(batch.outputs.scores[0]).toBeCloseTo(expectedScores(batch, 1)[0]!, 6);
    await again.close();
  });

  test("is noticed while idle, too", async () => {
    const { device, worker } = await openWithWorker(simulated({}));
    await worker.terminate();
    const batch = makeBatch(1);
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject({ code: "device_lost" });
    await device.close();
  });

  test("is given up by the watchdog when no call ends", async () => {
    const device = await openDevice(simulated({ fixedMicros: FOR_EVER_MICROS, callTimeoutMs: 20 }));
    const batch = makeBatch(1);
    const calls = [1, 2].map(() => device.execute(1, batch.inputs, batch.outputs));
    const wedged = {
      code: "device_wedged",
      message: `${device.name} ended no call for 20 ms and was given up`,
    };
    for (const outcome of await Promise.allSettled(calls))
      expect(outcome).toMatchObject({ status: "rejected", reason: wedged });
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject(wedged);
    await device.close();
  });
});
