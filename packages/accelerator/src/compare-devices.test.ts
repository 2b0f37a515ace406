import { expect, test } from "vitest";
import { allocateTensor, compareDevices, openDevice, type Device } from "@dlrm/accelerator";

/** y = `factor` · x. */
function multiplier(factor: number): Promise<Device> {
  return openDevice({
    kind: "reference",
    buckets: [2],
    inputs: [{ name: "x", width: [2] }],
    outputs: [{ name: "y", width: [2] }],
    run: (_bucket, { x }, { y }) => y!.set(x!.map((value) => factor * value)),
  });
}

test("each device has its turns, and its largest difference to what is expected", async () => {
  const devices = await Promise.all([multiplier(2), multiplier(2.5)]);
  const x = allocateTensor(4);
  x.set([1, 2, -4, 3]);
  let rounds = 0;
  const compared = await compareDevices(devices, {
    bucket: 2,
    inputs: { x },
    expected: { y: [2, 4, -8, 6] },
    rounds: 3,
    calls: 2,
    afterRound: async () => {
      rounds += 1;
    },
  });
  expect(rounds).toBe(3);
  expect(compared.map(({ kind, platform, precision, bucket }) => ({ kind, platform, precision, bucket }))).toEqual(
    devices.map(({ platform }) => ({ kind: "reference", platform, precision: "float32", bucket: 2 })),
  );
  expect(compared.map(({ maxAbsError }) => maxAbsError)).toEqual([0, 2]);
  expect(compared.map(({ micros }) => micros.length)).toEqual([3, 3]);
  for (const { micros, examplesPerSecond } of compared) {
    expect(examplesPerSecond).toBe(2e6 / [...micros].sort((a, b) => a - b)[1]!);
  }
  // One that is not timed, then two in each of three rounds.
  expect(devices.map(({ stats }) => stats.executions)).toEqual([7, 7]);
  await Promise.all(devices.map((device) => device.close()));
});

test("an output that is no number, or not there, is as far as can be; without an expectation there is no error", async () => {
  const device = await multiplier(Number.NaN);
  const inputs = { x: allocateTensor(4) };
  const options = { bucket: 2, inputs, rounds: 2, calls: 1 };
  const [wrong] = await compareDevices([device], { ...options, expected: { y: [0, 0, 0, 0] } });
  const [absent] = await compareDevices([device], { ...options, expected: { z: [0] } });
  expect([wrong!.maxAbsError, absent!.maxAbsError]).toEqual([Number.NaN, Number.NaN]);
  expect((await compareDevices([device], options))[0]).not.toHaveProperty("maxAbsError");
  await device.close();
});
