import type { Device, NamedTensors } from "@dlrm/accelerator";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { PredictRequestSchema, PredictResponseSchema } from "@dlrm/proto";
import type { OpenDeviceContext } from "@dlrm/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ExampleRequest, exampleRequest, inputsOf, scoresOf } from "./example-requests.ts";
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

interface Begun {
  readonly rows: number;
  /** Writes the outputs, and ends the call. */
  readonly finish: () => void;
}

/** Works on two batches at one time, and ends them when it is told to; what it writes for padding is -1. */
class TwoAtATime {
  readonly begun: Begun[] = [];
  #onBegin = (): void => {};

  readonly open = async (context: OpenDeviceContext): Promise<Device> => {
    const execute = async (
      bucket: number,
      { dense }: NamedTensors,
      { scores }: NamedTensors,
      { rows = bucket }: { rows?: number } = {},
    ): Promise<void> => {
      await new Promise<void>((resolve) => {
        this.begun.push({ rows, finish: resolve });
        this.#onBegin();
      });
      for (let row = 0; row < bucket; row++) scores![row] = row < rows ? dense![3 * row]! : -1;
    };
    return new Proxy(await new HeldDevice().open(context), {
      get: (target, name) => {
        if (name === "maxInFlight") return 2;
        if (name === "execute") return execute;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  };

  /** Resolves when so many calls have begun since the last time. */
  async begin(count: number): Promise<Begun[]> {
    while (this.begun.length < count) await new Promise<void>((resolve) => (this.#onBegin = resolve));
    return this.begun.splice(0, count);
  }
}

test("scores are a request's own though a batch with padding ends after the one behind it", async () => {
  const device = new TwoAtATime();
  const starting = startTestServer(bundle, { device: device.open, batching: "off" });
  for (const { finish } of await device.begin(1)) finish();
  await using server = await starting;
  await using client = new RawHttp2Client(server.port);
  const score = async (request: ExampleRequest): Promise<number[]> => {
    const message = create(PredictRequestSchema, { inputs: inputsOf(request) });
    const { body } = await client.call(frame(toBinary(PredictRequestSchema, message)));
    return scoresOf(fromBinary(PredictResponseSchema, body.subarray(5)).outputs);
  };
  const requests = [1, 1, 3, 1].map((batch, seed) => exampleRequest(seed, batch));
  const [first, second, padded, behind] = requests as [ExampleRequest, ExampleRequest, ExampleRequest, ExampleRequest];
  const firstTwo = [score(first), score(second)];
  const running = await device.begin(2);
  // They wait together, and are placed one behind the other.
  const lastTwo = [score(padded), score(behind)];
  await client.settled();
  for (const { finish } of running) finish();
  expect(await Promise.all(firstTwo)).toEqual([[first.dense[0]], [second.dense[0]]]);
  const [ofPadded, ofBehind] = (await device.begin(2)) as [Begun, Begun];
  expect([ofPadded.rows, ofBehind.rows]).toEqual([3, 1]);
  ofBehind.finish();
  ofPadded.finish();
  expect(await Promise.all(lastTwo)).toEqual([[padded.dense[0], padded.dense[3], padded.dense[6]], [behind.dense[0]]]);
});
