import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll } from "vitest";

const made: string[] = [];

// Of each test file: it has a worker of its own, and imports this anew.
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** A new folder for the tests of a file, which is gone after the last one. */
export function tempFolder(purpose: string): string {
  const folder = mkdtempSync(path.join(tmpdir(), `bench-${purpose}-`));
  made.push(folder);
  return folder;
}
