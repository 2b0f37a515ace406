import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KERNELS_TO_TEST } from "../test/kernels.ts";
import { readAllRows } from "../test/read-all-rows.ts";
import { float32Tensor, writeSafetensors } from "../test/tables.ts";
import { openEmbeddingStore } from "./embedding-store.ts";

const DIM = 256;
const ROWS = 32_768;
const TABLE_KIB = (ROWS * DIM * 4) / 1024;

interface Mapping {
  readonly name: string;
  readonly rssKib: number;
  readonly pssKib: number;
  readonly flags: readonly string[];
}

/** This process's mappings. */
async function mappings(): Promise<readonly Mapping[]> {
  const text = await readFile("/proc/self/smaps", "utf8");
  return text.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).map((part) => {
    const kib = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(part)?.[1] ?? 0);
    const flags = /^VmFlags: (.*)$/m.exec(part)?.[1]?.trim().split(" ") ?? [];
    return { name: part.split("\n")[0] ?? "", rssKib: kib("Rss"), pssKib: kib("Pss"), flags };
  });
}

describe.runIf(process.platform === "linux" && KERNELS_TO_TEST.includes("native"))("the native kernel's memory", () => {
  let dir = "";
  let file = "";
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "embedding-memory-"));
    file = join(dir, "tables.safetensors");
    await writeSafetensors(file, { t: float32Tensor(ROWS, DIM, new Float32Array(ROWS * DIM).fill(1)) });
  });
  afterAll(() => rm(dir, { recursive: true }));

  test.runIf(existsSync("/sys/kernel/mm/transparent_hugepage"))(
    "asks for huge pages, spread over NUMA nodes if that is wanted",
    async () => {
      const isHuge = ({ rssKib, flags }: Mapping) => rssKib >= TABLE_KIB && flags.includes("hg");
      const before = (await mappings()).filter(isHuge).length;
      for (const numaInterleave of [false, true]) {
        const store = await openEmbeddingStore({ safetensors: file }, { kernel: "native", numaInterleave });
        expect((await mappings()).filter(isHuge).length).toBe(before + 1);
        store.close();
      }
      expect((await mappings()).filter(isHuge).length).toBe(before);
    },
  );

  test("is one for all processes that map a file, which are not read ahead for", async () => {
    const child = spawn(process.execPath, [
      ...process.execArgv,
      fileURLToPath(new URL("../test/mmap-process.ts", import.meta.url)),
      file,
    ]);
    const store = await openEmbeddingStore({ safetensors: file }, { kernel: "native", mode: "mmap" });
    readAllRows(store, "t");
    await new Promise((resolve, reject) => {
      child.stdout.once("data", resolve);
      child.once("exit", (code) => reject(new Error(`the other process ended with ${code}`)));
    });
    const mapped = (await mappings()).filter(({ name }) => name.includes(file));
    child.stdin.end();
    await new Promise((resolve) => child.once("close", resolve));
    store.close();
    expect(mapped.map(({ flags }) => flags.includes("rr"))).toEqual([true]);
    const [{ rssKib, pssKib } = { rssKib: 0, pssKib: 0 }] = mapped;
    expect(rssKib).toBeGreaterThanOrEqual(TABLE_KIB);
    // Each of the two answers for half of it.
    expect(pssKib).toBeLessThan(0.6 * rssKib);
  });
});

test("kernels that do not place memory refuse to spread it", async () => {
  const rows = { t: { dim: 1, data: Float32Array.of(1) } };
  await expect(openEmbeddingStore({ rows }, { kernel: "wasm", numaInterleave: true })).rejects.toMatchObject({
    code: "unsupported",
  });
});
