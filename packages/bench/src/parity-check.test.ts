import { create } from "@bufbuild/protobuf";
import type { ModelSpec } from "@dlrm/model";
import { DataType, type PredictRequest, type PredictResponse, PredictResponseSchema } from "@dlrm/proto";
import { expect, it } from "vitest";
import type { ModelInput } from "./parity.ts";
import { ParityCheck, type Reference } from "./parity-check.ts";
import type { PredictionClient } from "./prediction-client.ts";

const spec: ModelSpec = {
  name: "tiny",
  embeddingDim: 4,
  denseFeatures: 2,
  features: [{ name: "sparse_0", vocabularySize: 1000, hotSize: 3, pooling: "sum" }],
  denseNetwork: { bottomMlp: [4], crossLayers: 1, crossProjection: 2, topMlp: [1] },
};
const never = new AbortController().signal;

/** Of one example: its first dense feature and its last id decide. */
const scoreOf = (dense: number, id: number): number => Math.fround(dense / 4 + id / 4000);

function referenceOf(sizes: number[] = []): Reference {
  return {
    forward: async ({ batch, dense, ids }: ModelInput) => {
      sizes.push(batch);
      return Float64Array.from({ length: batch }, (_, row) =>
        scoreOf(dense[row * 2] as number, ids[0]?.[row * 3 + 2] as number),
      );
    },
    close: async () => undefined,
  };
}

function scoresOf({ inputs }: PredictRequest): number[] {
  const { dense, sparse_0: ids } = inputs as Required<typeof inputs>;
  const batch = Number(dense?.shape[0]);
  const view = (data: Uint8Array | undefined): DataView =>
    new DataView(data?.buffer as ArrayBuffer, data?.byteOffset, data?.byteLength);
  const idAt = (index: number): number =>
    ids?.dataType === DataType.INT64
      ? Number(view(ids.data).getBigInt64(index * 8, true))
      : view(ids?.data).getInt32(index * 4, true);
  return Array.from({ length: batch }, (_, row) =>
    scoreOf(view(dense?.data).getFloat32(row * 8, true), idAt(row * 3 + 2)),
  );
}

function answer(scores: readonly number[]): PredictResponse {
  const data = new Uint8Array(Float32Array.from(scores).buffer);
  return create(PredictResponseSchema, {
    outputs: { scores: { dataType: DataType.FLOAT32, shape: [BigInt(scores.length)], data } },
  });
}

/** Of the requests that come in the same turn of the event loop, `mixed` makes the answers from the scores of each. */
function clientOf(mixed: (scores: number[][]) => number[][], turns: number[] = []): PredictionClient {
  let waiting: { scores: number[]; resolve: (response: PredictResponse) => void }[] = [];
  const client: Pick<PredictionClient, "predict"> = {
    predict: (request) =>
      new Promise((resolve) => {
        waiting.push({ scores: scoresOf(request), resolve });
        if (waiting.length > 1) return;
        setImmediate(() => {
          const batch = waiting;
          waiting = [];
          turns.push(batch.length);
          for (const [index, scores] of mixed(batch.map((one) => one.scores)).entries()) {
            batch[index]?.resolve(answer(scores));
          }
        });
      }),
  };
  return client as PredictionClient;
}

function check(reference: Reference): ParityCheck {
  return new ParityCheck({ spec, reference, simulated: false, seed: 1 });
}

it("asks alone with either type of ids, then for all at once, and for each score of the reference once", async () => {
  const sizes: number[] = [];
  const turns: number[] = [];
  const parity = check(referenceOf(sizes));
  for (const bReq of [1, 16, 16]) {
    expect(await parity.check([clientOf((scores) => scores, turns)], bReq, never)).toEqual({ ok: true, maxAbsDiff: 0 });
  }
  expect(turns).toEqual([1, 1, 18, 1, 1, 18, 1, 1, 18]);
  expect(sizes).toEqual([1, 16, 16]);
});

it("sends what it sends at once over all connections", async () => {
  const turns: number[][] = [[], [], [], []];
  const [first, ...others] = turns.map((counts) => clientOf((scores) => scores, counts));
  const outcome = await check(referenceOf()).check([first as PredictionClient, ...others], 2, never);
  expect(outcome).toEqual({ ok: true, maxAbsDiff: 0 });
  expect(turns).toEqual([[1, 1, 6], [4], [4], [4]]);
});

it.each([1, 3])(
  "finds a server that gives requests of size %i the scores of others in the same batch",
  async (bReq) => {
    const swapped = clientOf((scores) => {
      if (scores.length === 1) return scores;
      const rows = scores.flat();
      rows.push(rows.shift() as number);
      return scores.map(({ length }) => rows.splice(0, length));
    });
    expect(await check(referenceOf()).check([swapped], bReq, never)).toEqual({
      ok: false,
      maxAbsDiff: expect.any(Number),
      error: expect.stringMatching(/^among 18 requests at once: largest difference .*, expected at most 1e-4$/),
    });
  },
);

it("finds one wrong neighbour of many", async () => {
  const wrong = clientOf((scores) => (scores.length === 1 ? scores : [...scores.slice(0, -1), [Number.NaN]]));
  expect(await check(referenceOf()).check([wrong], 2, never)).toEqual({
    ok: false,
    maxAbsDiff: null,
    error: expect.stringMatching(/^among 18 requests at once: int64 ids: score 0: expected .*, got NaN$/),
  });
});

it("names the type of ids of an answer that is none, and asks no further", async () => {
  const turns: number[] = [];
  expect(await check(referenceOf()).check([clientOf(() => [[]], turns)], 2, never)).toEqual({
    ok: false,
    maxAbsDiff: null,
    error: "int32 ids: scores: expected shape [2], got [0]",
  });
  expect(turns).toEqual([1]);
});

it("gives up the reference's scores of a large request when it is told to, and makes them anew the next time", async () => {
  const stop = new AbortController();
  const sizes: number[] = [];
  const reference = referenceOf(sizes);
  const parity = check({
    forward: async (input, network) => {
      const scores = await reference.forward(input, network);
      if (sizes.length === 1) stop.abort(new Error("stopped by SIGINT"));
      return scores;
    },
    close: () => reference.close(),
  });
  const client = clientOf((scores) => scores);
  await expect(parity.check([client], 1000, stop.signal)).rejects.toThrow("stopped by SIGINT");
  expect(sizes).toEqual([64]);
  expect(await parity.check([client], 1000, never)).toEqual({ ok: true, maxAbsDiff: 0 });
  expect(sizes.slice(1, -1).reduce((sum, size) => sum + size, 0)).toBe(1000);
});
