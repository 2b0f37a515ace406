import { createHash, randomUUID } from "node:crypto";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { makeFolder } from "./make-folder.ts";

const MAGIC: Buffer = Buffer.from("dlrm-pjrt 1\n");
const DIGEST_BYTES = 32;

/** Where compiled programs are kept unless told otherwise. */
export function defaultExecutableCacheDir(env: NodeJS.ProcessEnv = process.env): string {
  const base = env["XDG_CACHE_HOME"];
  return path.join(base && path.isAbsolute(base) ? base : path.join(homedir(), ".cache"), "dlrm", "pjrt");
}

/**
 * Serialized executables in a folder, by a hash of everything they depend on. Files are written whole or not at all, and what is
 * damaged is as good as missing: a folder that can't be used costs time, never a device.
 */
export class ExecutableCache {
  readonly #dir: string | undefined;

  /** Without a folder nothing is kept. */
  constructor(dir: string | undefined) {
    this.#dir = dir;
  }

  /** The name of what is compiled from `parts`: equal parts, equal name. */
  static keyOf(parts: readonly (string | Uint8Array)[]): string {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part);
    return hash.digest("hex");
  }

  read(key: string): Uint8Array | undefined {
    if (this.#dir === undefined) return undefined;
    let file: Buffer;
    try {
      file = readFileSync(this.#fileOf(this.#dir, key));
    } catch {
      return undefined;
    }
    const contentAt = MAGIC.length + DIGEST_BYTES;
    if (file.length < contentAt || !file.subarray(0, MAGIC.length).equals(MAGIC)) return undefined;
    const content = file.subarray(contentAt);
    return createHash("sha256").update(content).digest().equals(file.subarray(MAGIC.length, contentAt))
      ? content
      : undefined;
  }

  write(key: string, content: Uint8Array): void {
    if (this.#dir === undefined) return;
    const file = this.#fileOf(this.#dir, key);
    const temporary = `${file}.${randomUUID()}.tmp`;
    try {
      makeFolder(this.#dir, 0o700);
      const digest = createHash("sha256").update(content).digest();
      writeFileSync(temporary, Buffer.concat([MAGIC, digest, content]), { mode: 0o600 });
      renameSync(temporary, file);
    } catch {
      rmSync(temporary, { force: true });
    }
  }

  #fileOf(dir: string, key: string): string {
    return path.join(dir, `${key}.pjrt`);
  }
}
