import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Device, NamedTensors } from "@dlrm/accelerator";
import { PredictRequestSchema, PredictResponseSchema } from "@dlrm/proto";
import type { OpenDeviceContext } from "@dlrm/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exampleRequest, inputsOf, scoresOf } from "./example-requests.ts";
import { HeldDevice } from "./held-device.ts";
import { frame, RawHttp2Client } from "./raw-http2.ts";
import { startTestServer, type TemporaryBundle, temporaryBundle } from "./serving-fixture.ts";

let bundle: TemporaryBundle;
beforeAll(async () => {
  bundle = await temporaryBundle();
});
afterAll(async () => {
  await bundle[Symbol.asyncDispose]();
});

/** Ends its calls at once, and tells of it only when it is asked; the first, which is the server's warm-up, without. */
class AskedDevice {
  /** Calls that have begun, and which nobody has asked for. */
  readonly unasked: (() => void)[] = [];
  #isWarm = false;

  readonly open = async (context: OpenDeviceContext): Promise<Device> => {
    const execute = async (_bucket: number, { dense }: NamedTensors, { scores }: NamedTensors): Promise<void> => {
      scores!.set(scores!.map((_, row) => dense![3 * row]!));
      if (this.#isWarm) await new Promise<void>((resolve) => this.unasked.push(resolve));
      this.#isWarm = true;
    };
    const settleEnded = (): void => {
      for (const resolve of this.unasked.splice(0)) resolve();
    };
    const own: Partial<Record<string | symbol, unknown>> = { platform: "other", execute, settleEnded };
    return new Proxy(await new HeldDevice().open(context), {
      get: (target, name) => {
        if (name in own) return own[name];
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  };
}

test("with each request that is read, the device is asked whether a batch has ended", async () => {
  const device = new AskedDevice();
  await using server = await startTestServer(bundle, { device: device.open });
  await using client = new RawHttp2Client(server.port);
  const score = async (seed: number): Promise<number[]> => {
    const message = create(PredictRequestSchema, { inputs: inputsOf(exampleRequest(seed, 1)) });
    const { body } = await client.call(frame(toBinary(PredictRequestSchema, message)));
    return scoresOf(fromBinary(PredictResponseSchema, body.subarray(5)).outputs);
  };
  const first = score(1);
  await client.settled();
  expect(device.unasked).toHaveLength(1);
  // Nothing but its coming tells the server that the first is done.
  const second = score(2);
  expect(await first).toEqual([exampleRequest(1, 1).dense[0]]);
  await client.settled();
  expect(device.unasked).toHaveLength(1);
  void score(3).catch(() => {});
  expect(await second).toEqual([exampleRequest(2, 1).dense[0]]);
  await client.settled();
  for (const resolve of device.unasked) resolve();
});
