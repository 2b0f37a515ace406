import { once } from "node:events";
import { renameSync } from "node:fs";
import { rename } from "node:fs/promises";
import type { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AcceleratorError, openDevice, type Device, type DeviceSpec } from "@dlrm/accelerator";
import { expectedScores, fixtureModel, makeBatch, ModelFolder, specOf, V, W } from "../test/open-devices.ts";
import { ReopeningDevice } from "./reopening-device.ts";
import { StatsCounter } from "./stats-counter.ts";

let folder: ModelFolder;
beforeAll(async () => {
  folder = await ModelFolder.create();
});
afterAll(() => folder.remove());

async function openWithWorker(spec: DeviceSpec): Promise<{ device: Device; worker: Worker }> {
  const created = once(process, "worker") as Promise<[Worker]>;
  const device = await openDevice(spec);
  const [worker] = await created;
  return { device, worker };
}

/** Of a device, what reopening needs. */
class FakeDevice {
  readonly lost: PromiseWithResolvers<AcceleratorError> = Promise.withResolvers<AcceleratorError>();
  readonly compiled: number[] = [];
  closes = 0;
  compile: () => Promise<void> = async () => {};
  readonly device: Device = {
    buckets: [1],
    lost: this.lost.promise,
    stats: new StatsCounter([1]).snapshot(0),
    compile: async (_program: unknown, bucket: number) => {
      await this.compile();
      this.compiled.push(bucket);
    },
    close: async () => void this.closes++,
  } as Partial<Device> as Device;
}

describe("a device that is opened again", () => {
  test("takes calls again after it was lost, and counts them all", async () => {
    const lost = Promise.withResolvers<AcceleratorError>();
    const reopened = Promise.withResolvers<void>();
    const { device, worker } = await openWithWorker({
      kind: "simulated",
      w: W,
      v: V,
      buckets: [1, 2],
      fixedMicros: 0,
      microsPerExample: 0,
      reopen: { onLost: lost.resolve, onReopened: reopened.resolve },
    });
    const batch = makeBatch(2);
    await device.execute(1, batch.inputs, batch.outputs);
    await device.compile(undefined, 4);
    await worker.terminate();
    const reason = await lost.promise;
    expect(reason).toMatchObject({
      code: "device_lost",
      message: `the thread of ${device.name} ended with code 1`,
    });
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject({
      code: "device_lost",
      message: `${device.name} was lost and is being opened again; try again later`,
      cause: reason,
    });
    expect(device.stats).toMatchObject({ executions: 1, inFlight: 0 });
    await reopened.promise;
    await device.execute(1, batch.inputs, batch.outputs);
    await device.execute(2, batch.inputs, batch.outputs, { rows: 1 });
    expect(device.buckets).toEqual([1, 2, 4]);
    const added = makeBatch(4);
    await device.execute(4, added.inputs, added.outputs);
    expect(added.outputs.scores[3]).toBeCloseTo(expectedScores(added, 4)[3]!, 6);
    expect(batch.outputs.scores[1]).toBeCloseTo(expectedScores(batch, 2)[1]!, 6);
    expect(device.stats).toMatchObject({ executions: 4, rows: 7, paddedRows: 1 });
    expect(device.stats.byBucket.map(({ bucket, executions }) => [bucket, executions])).toEqual([
      [1, 2],
      [2, 1],
      [4, 1],
    ]);
    await device.close();
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject({ code: "closed" });
  });

  test("tries until it can be opened", async () => {
    const modelPath = await folder.write("comes-back.onnx", fixtureModel());
    const away = `${modelPath}.away`;
    const reopened = Promise.withResolvers<void>();
    const attempts: [string, number][] = [];
    const onAttemptFailed = (error: AcceleratorError, attempt: number): void => {
      attempts.push([error.code, attempt]);
      if (attempt === 2) renameSync(away, modelPath);
    };
    const { device, worker } = await openWithWorker({
      ...specOf("onnxruntime", modelPath),
      reopen: { delayMs: 1, onAttemptFailed, onReopened: reopened.resolve },
    } as DeviceSpec);
    await rename(modelPath, away);
    await worker.terminate();
    await reopened.promise;
    expect(attempts.slice(0, 2)).toEqual([
      ["model_not_found", 1],
      ["model_not_found", 2],
    ]);
    const batch = makeBatch(1);
    await device.execute(1, batch.inputs, batch.outputs);
    expect(batch.outputs.scores[0]).toBeCloseTo(expectedScores(batch, 1)[0]!, 6);
    await device.close();
  });

  test("closes what it opened if a bucket can't be added to it, and tries again", async () => {
    const [first, second, third] = [new FakeDevice(), new FakeDevice(), new FakeDevice()];
    const failed = Promise.withResolvers<AcceleratorError>();
    const reopened = Promise.withResolvers<void>();
    const opened = [second, third];
    const device = new ReopeningDevice(first.device, async () => opened.shift()!.device, {
      delayMs: 1,
      onAttemptFailed: failed.resolve,
      onReopened: reopened.resolve,
    });
    await device.compile(undefined, 4);
    const noRoom = new AcceleratorError("open_failed", "no room");
    second.compile = () => Promise.reject(noRoom);
    first.lost.resolve(new AcceleratorError("device_lost", "gone"));
    expect(await failed.promise).toBe(noRoom);
    await reopened.promise;
    expect([second, third].map(({ compiled, closes }) => ({ compiled, closes }))).toEqual([
      { compiled: [], closes: 1 },
      { compiled: [4], closes: 0 },
    ]);
    await device.close();
    expect(third.closes).toBe(1);
  });

  test("closes what it opened if it is closed while buckets are added to it", async () => {
    const [first, second] = [new FakeDevice(), new FakeDevice()];
    const device = new ReopeningDevice(first.device, async () => second.device, {});
    await device.compile(undefined, 4);
    await device.compile(undefined, 8);
    const adding = Promise.withResolvers<void>();
    const added = Promise.withResolvers<void>();
    second.compile = () => {
      adding.resolve();
      return added.promise;
    };
    first.lost.resolve(new AcceleratorError("device_lost", "gone"));
    await adding.promise;
    const closed = device.close();
    added.resolve();
    await closed;
    expect(second).toMatchObject({ compiled: [4], closes: 1 });
    await expect(device.compile(undefined, 16)).rejects.toMatchObject({ code: "closed" });
  });

  test("stays lost after maxAttempts, and says why", async () => {
    const modelPath = await folder.write("is-gone.onnx", fixtureModel());
    const { device, worker } = await openWithWorker({
      ...specOf("onnxruntime", modelPath),
      reopen: { delayMs: 1, maxAttempts: 2 },
    } as DeviceSpec);
    await rename(modelPath, `${modelPath}.away`);
    await worker.terminate();
    const lost = await device.lost;
    expect(lost.message).toContain(
      " was lost, and 2 attempts to open it again failed, the last because can't read the model ",
    );
    expect(lost).toMatchObject({ code: "device_lost", cause: { code: "model_not_found" } });
    const batch = makeBatch(1);
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toBe(lost);
    await device.close();
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject({ code: "closed" });
  });

  test("gives up opening when it is closed", async () => {
    const modelPath = await folder.write("never-mind.onnx", fixtureModel());
    const failed = Promise.withResolvers<void>();
    const { device, worker } = await openWithWorker({
      ...specOf("onnxruntime", modelPath),
      reopen: { delayMs: 1e6, onAttemptFailed: () => failed.resolve() },
    } as DeviceSpec);
    await rename(modelPath, `${modelPath}.away`);
    await worker.terminate();
    await failed.promise;
    await device.close();
    const batch = makeBatch(1);
    await expect(device.execute(1, batch.inputs, batch.outputs)).rejects.toMatchObject({ code: "closed" });
  });
});
