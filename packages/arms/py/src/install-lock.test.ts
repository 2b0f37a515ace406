import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { takeAway, withInstallLock } from "./install-lock.ts";

let dir = "";
let lock = "";

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "dlrm-lock-"));
  lock = path.join(dir, "lock");
});

afterEach(() => rmSync(dir, { recursive: true }));

test("a stale lock is taken away", async () => {
  writeFileSync(lock, "gone");
  await takeAway(lock, "gone");
  expect(readdirSync(dir)).toStrictEqual([]);
});

test("a lock that another has made in place of the stale one stays", async () => {
  writeFileSync(lock, "another");
  await takeAway(lock, "gone");
  expect(readdirSync(dir)).toStrictEqual(["lock"]);
  expect(readFileSync(lock, "utf8")).toBe("another");
});

test("a stale lock that another has taken away already is no error", async () => {
  await takeAway(lock, "gone");
  expect(readdirSync(dir)).toStrictEqual([]);
});

test("of some that find a stale lock, one after the other works", async () => {
  writeFileSync(lock, "gone");
  const past = new Date(Date.now() - 60_000);
  utimesSync(lock, past, past);
  let working = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    most = Math.max(most, ++working);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    working--;
  };
  const options = { signal: new AbortController().signal, onWait: () => undefined };
  await Promise.all(Array.from({ length: 3 }, () => withInstallLock(lock, options, work)));
  expect(most).toBe(1);
  expect(readdirSync(dir)).toStrictEqual([]);
});
