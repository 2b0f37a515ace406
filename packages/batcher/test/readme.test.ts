import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Batcher } from "@dlrm/batcher";

/**
 * The examples of the README, run as they stand: the code blocks that follow a `<!-- example: name -->` line. What they
 * import is handed to them, so that the model, the database and the API are ones that tell what they were asked.
 */
function exampleOf(name: string): string {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const code = new RegExp(`<!-- example: ${name} -->\\s*\`\`\`ts\\n([\\s\\S]*?)\`\`\``).exec(readme)?.[1];
  if (code === undefined) {
    throw new Error(`the README has no example ${name}`);
  }
  return code;
}

async function runExample(name: string, given: Record<string, unknown>): Promise<unknown> {
  const code = exampleOf(name).replace('import { Batcher } from "@dlrm/batcher";\n', "");
  expect(code).not.toContain("import ");
  const names = ["Batcher", ...Object.keys(given)];
  // oxlint-disable-next-line typescript/no-implied-eval -- the README's own code
  const run = new Function(...names, `return (async () => {\n${code}\nreturn result;\n})();`) as (
    ...values: unknown[]
  ) => Promise<unknown>;
  return run(Batcher, ...Object.values(given));
}

describe("the README's example", () => {
  test("of a model", async () => {
    const batches: number[] = [];
    const model = {
      predict: (rows: readonly (readonly number[])[]) => {
        batches.push(rows.length);
        return Promise.resolve(Float32Array.from(rows, (row) => row.reduce((sum, x) => sum + x, 0)));
      },
    };
    const result = await runExample("model", { model });
    expect(result).toEqual([6, 15, 24]);
    // Three rows, padded to four.
    expect(batches).toEqual([4]);
  });

  test("of a bulk database read", async () => {
    const queries: unknown[] = [];
    const db = {
      query: (text: string, values: readonly unknown[]) => {
        queries.push([text, values]);
        // In another order than asked, and one is not there.
        return Promise.resolve([
          { id: 3, name: "Cy" },
          { id: 1, name: "Ann" },
        ]);
      },
    };
    const result = await runExample("database", { db });
    expect(result).toEqual([{ id: 1, name: "Ann" }, undefined, { id: 3, name: "Cy" }]);
    expect(queries).toEqual([["SELECT id, name FROM users WHERE id = ANY($1)", [[1, 2, 3]]]]);
  });

  test("of an embedding API with rate limits", async () => {
    const requests: (readonly string[])[] = [];
    let open = 0;
    let mostOpen = 0;
    const api = {
      embed: async (texts: readonly string[]) => {
        requests.push(texts);
        open += 1;
        mostOpen = Math.max(mostOpen, open);
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
        open -= 1;
        return texts.map((text) => [text.length]);
      },
    };
    const result = await runExample("embeddings", { api });
    expect(result).toEqual(Array.from({ length: 300 }, (_, i) => [`text ${i}`.length]));
    expect(Math.max(...requests.map((texts) => texts.length))).toBeLessThanOrEqual(96);
    expect(requests.flat()).toHaveLength(300);
    expect(mostOpen).toBe(2);
  });
});
