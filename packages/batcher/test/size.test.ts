import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";

test("the in-thread part is under 12 KB minified and compressed, and needs nothing else", async () => {
  const bundle = await rolldown({
    input: fileURLToPath(new URL("../src/index.ts", import.meta.url)),
    platform: "neutral",
  });
  const { output } = await bundle.generate({ format: "esm", minify: true });
  await bundle.close();
  expect(output).toHaveLength(1);
  const [chunk] = output;
  expect([chunk.imports, chunk.dynamicImports]).toEqual([[], []]);
  expect(gzipSync(chunk.code).byteLength).toBeLessThan(12_000);
  expect(chunk.code).toContain("maxEnqueuedItems");
});
