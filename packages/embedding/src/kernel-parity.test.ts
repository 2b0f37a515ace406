import { describe, expect, test } from "vitest";
import { KERNELS_TO_TEST, openSessionOf } from "../test/kernels.ts";
import { randomTable, randomUint32 } from "../test/tables.ts";
import { layOutPlan } from "./plan-layout.ts";
import { createReferencePlan } from "./reference-kernel.ts";
import type { KernelSession } from "./kernel.ts";
import type { OutOfVocabularyPolicy, TableDtype, TableSource } from "./table.ts";
import { openWasmSession } from "./wasm-session.ts";

const DTYPES: readonly TableDtype[] = ["float32", "float16", "bfloat16", "int8", "int4"];
const POLICIES: readonly OutOfVocabularyPolicy[] = [
  { kind: "error" },
  { kind: "zero" },
  { kind: "default-row", row: 2 },
  { kind: "modulo" },
];
const DIMS = [1, 3, 7, 8, 16, 17, 31, 33, 100, 128, 129, 257, 1024];
const HOT_SIZES = [1, 0, 2, 3, 4, 5, 8, 9, 17, 100];

type Open = (sources: readonly TableSource[]) => Promise<KernelSession>;

/** Kernels to compare with the reference (which by itself is compared with its own session), and how each is opened. */
const OPENERS: readonly (readonly [string, Open])[] = [
  ...KERNELS_TO_TEST.filter((kernel) => kernel !== "reference" || KERNELS_TO_TEST.length === 1).map(
    (kernel): readonly [string, Open] => [kernel, (sources) => openSessionOf(kernel, sources)],
  ),
  // Memories so small that tables are split over several of them.
  ...(KERNELS_TO_TEST.includes("wasm")
    ? [
        ["split wasm", (sources) => openWasmSession(sources, { concurrency: 1 }, 10_000)] as const satisfies [
          string,
          Open,
        ],
      ]
    : []),
];

describe.each(OPENERS)("the %s kernel gives the reference's bits", (_, openSession) => {
  describe.each(DTYPES)("for %s tables", (dtype) => {
    test.each(DIMS)("of dim %d, over hot sizes, policies and batches", async (dim) => {
      const random = randomUint32(dim);
      const sources = POLICIES.map((policy, at) => randomTable(`t${at}`, 3 + at * 40, dim, dtype, policy, random));
      const session = await openSession(sources);
      const layout = layOutPlan(
        sources,
        HOT_SIZES.map((hotSize, at) => ({
          table: `t${at % sources.length}`,
          hotSize,
          pooling: at % 3 === 2 ? "mean" : "sum",
        })),
      );
      const reference = createReferencePlan(
        layout,
        sources.map((info) => ({ info, buffer: info.source.bytes.buffer, byteOffset: 0 })),
      );
      const plan = session.createPlan(layout);
      for (const batch of [1, 3]) {
        const ids = new Int32Array(batch * layout.idsPerExample);
        for (const { table, hotBefore, hotSize } of layout.features) {
          for (let i = batch * hotBefore; i < batch * (hotBefore + hotSize); i++) {
            const wild = table.outOfVocabulary.kind !== "error" && random() % 4 === 0;
            ids[i] = wild ? random() : random() % table.rows;
          }
        }
        const expected = new Float32Array((batch + 2) * layout.outputWidth).fill(3);
        const actual = expected.slice();
        expect(reference.gather(ids, batch, expected, 1)).toBe(-1);
        expect(plan.findOutOfVocabulary(ids, batch)).toBe(-1);
        expect(plan.gather(ids, batch, actual, 1)).toBe(-1);
        expect(Buffer.compare(Buffer.from(actual.buffer), Buffer.from(expected.buffer))).toBe(0);
        const weights = Float32Array.from(ids, () => random() / 2 ** 31 - 1);
        if (batch === 1) {
          reference.gather(ids, batch, expected, 1, weights);
          expect(plan.gather(ids, batch, actual, 1, weights)).toBe(-1);
        } else {
          // The same ids in bags of twice their size, of none, and of their size.
          const lengths = Int32Array.from(layout.features.flatMap(({ hotSize }) => [hotSize * 2, 0, hotSize]));
          const ofIds = dim % 2 === 0 ? undefined : weights;
          reference.gatherRagged(ids, lengths, batch, expected, 1, ofIds);
          expect(plan.gatherRagged(ids, lengths, batch, actual, 1, ofIds)).toBe(-1);
        }
        expect(Buffer.compare(Buffer.from(actual.buffer), Buffer.from(expected.buffer))).toBe(0);
      }
      session.close();
    });
  });
});
