import { closeRing, RingConsumer } from "@dlrm/batcher/shared";
import type { EmbeddingStore } from "@dlrm/embedding";
import type { ModelSpec } from "@dlrm/model";
import { expect, test, vi } from "vitest";
import { allocateFrontendCells, frontendCells } from "./frontend-cells.ts";
import { RingModel } from "./ring-model.ts";
import type { ScoreSink } from "./score-sink.ts";
import { createScoringRing, RunningBatches, type ScoringRing } from "./scoring-ring.ts";

const spec: ModelSpec = {
  name: "m",
  embeddingDim: 1,
  denseFeatures: 1,
  features: [{ name: "a", vocabularySize: 2, hotSize: 1, pooling: "sum" }],
  denseNetwork: { bottomMlp: [1], crossLayers: 0, crossProjection: 1, topMlp: [1] },
};
const request = { batch: 1, dense: new Float32Array(1), ids: new Int32Array(1) };
const store = {
  plan: () => ({ gather: () => {}, findOutOfVocabulary: () => undefined }),
} as unknown as EmbeddingStore;

/** A frontend's end of a ring whose batches nobody runs. */
function rig(onPlaced: () => void = () => {}): { readonly model: RingModel; readonly ring: ScoringRing } {
  const ring = createScoringRing({
    denseFeatures: 1,
    pooledWidth: 1,
    maxBatchSize: 2,
    largestBucket: 2,
    itemsAlone: false,
    maxInFlightBatches: 1,
  });
  const cells = frontendCells(allocateFrontendCells()).ring;
  const model = new RingModel({
    info: {
      name: "m",
      version: "1",
      spec,
      limits: {
        maxMessageBytes: 1000,
        maxExamplesPerRequest: 2,
        maxBatchSize: 2,
        maxEnqueuedExamples: 100,
        maxEnqueuedBytes: 1000,
        maxBufferedBytes: 100_000,
        maxIncompleteBytesPerConnection: 100_000,
      },
      buckets: [2],
      ring,
      running: new RunningBatches(ring.slots).buffer,
      frontends: [cells],
    },
    store,
    cells,
    outOfVocabulary: new Float64Array(2),
    stages: undefined,
    onPlaced,
  });
  return { model, ring };
}

/** Hears what becomes of a request without a deadline: nothing but the model ends its wait. */
function sinkOf(tell: (outcome: string) => void): ScoreSink {
  return {
    aborted: false,
    reason: undefined,
    deadlineMs: undefined,
    addEventListener: () => {},
    removeEventListener: () => {},
    scored: () => tell("scored"),
    failed: (error) => tell(String(error)),
  };
}

const DRAINING = "ServerError: the server is draining: try another one";

test("a request that comes after the end of the ring is refused at once, as those that are in", async () => {
  const { model, ring } = rig();
  const first = new Promise<string>((resolve) => {
    model.score(request, sinkOf(resolve));
  });
  closeRing(ring);
  expect(await first).toBe(DRAINING);
  const told: string[] = [];
  model.score(
    request,
    sinkOf((outcome) => told.push(outcome)),
  );
  expect(told).toEqual([DRAINING]);
});

test("a request that comes when the model has left the ring is refused at once", () => {
  const { model } = rig();
  model.close();
  const told: string[] = [];
  model.score(
    request,
    sinkOf((outcome) => told.push(outcome)),
  );
  expect(told).toEqual([DRAINING]);
});

test("all is placed, and that is told, when there is room again and the last that waited for it was cancelled", async () => {
  let onPlaced = (): void => {};
  const placed = new Promise<void>((resolve) => {
    onPlaced = resolve;
  });
  const { model, ring } = rig(() => onPlaced());
  const told: string[] = [];
  for (let example = 0; example < ring.slots * ring.maxBatchSize; example++) {
    model.score(
      request,
      sinkOf((outcome) => told.push(outcome)),
    );
  }
  expect(model.isPlaced).toBe(true);
  let cancel = (): void => {};
  model.score(request, {
    ...sinkOf((outcome) => told.push(outcome)),
    addEventListener: (_type, listener) => (cancel = listener as () => void),
  });
  expect(model.isPlaced).toBe(false);
  cancel();
  expect(told).toEqual(["ServerError: the request was cancelled"]);
  const served = new RingConsumer(ring).serve(() => {});
  await placed;
  expect(model.isPlaced).toBe(true);
  closeRing(ring);
  await served;
});

test("what is scored is told, and its room is free, when the next request comes: without a turn of the event loop", async () => {
  const { model, ring } = rig();
  const told: string[] = [];
  const score = (name: string): void =>
    model.score(
      request,
      sinkOf((outcome) => told.push(`${name} ${outcome}`)),
    );
  for (let example = 0; example < ring.slots * ring.maxBatchSize; example++) score(`of batch ${example >> 1}`);
  score("waits");
  expect(model.isPlaced).toBe(false);
  const firstEnds = Promise.withResolvers<void>();
  const served = new RingConsumer(ring, { hooks: { onBatchEnd: () => firstEnds.resolve() } }).serve(() => {});
  // The batch is published then, and nobody who sleeps on it has been woken.
  await firstEnds.promise;
  expect(told).toEqual([]);
  score("next");
  expect(told).toEqual(["of batch 0 scored", "of batch 0 scored"]);
  expect(model.isPlaced).toBe(true);
  closeRing(ring);
  await served;
});

test("that nothing waits any more is told when the ring ends, too", async () => {
  let toldPlaced = 0;
  const { model, ring } = rig(() => toldPlaced++);
  for (let example = 0; example < ring.slots * ring.maxBatchSize; example++) {
    model.score(
      request,
      sinkOf(() => {}),
    );
  }
  let cancel = (): void => {};
  model.score(request, {
    ...sinkOf(() => {}),
    addEventListener: (_type, listener) => (cancel = listener as () => void),
  });
  cancel();
  expect(model.isPlaced).toBe(false);
  closeRing(ring);
  await vi.waitUntil(() => model.isPlaced);
  expect(toldPlaced).toBe(1);
});
