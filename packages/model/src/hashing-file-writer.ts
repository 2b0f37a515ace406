import { createHash, type Hash } from "node:crypto";
import { open, type FileHandle } from "node:fs/promises";
import type { FileRecord } from "./manifest.ts";

/** Dirty pages are pushed to the disk this often, so that they neither pile up in memory nor all wait for the end. */
const FLUSH_EVERY_BYTES = 256 << 20;

/** Writes a new file from front to back, and hashes each chunk on this thread while the thread pool writes it. */
export class HashingFileWriter {
  readonly #file: FileHandle;
  readonly #hash: Hash = createHash("sha256");
  readonly #onWritten: (bytes: number) => void;
  #bytes = 0;
  #flushedBytes = 0;
  #flush: Promise<unknown> = Promise.resolve();

  private constructor(file: FileHandle, onWritten: (bytes: number) => void) {
    this.#file = file;
    this.#onWritten = onWritten;
  }

  /** @param onWritten told the size of every chunk once it is written. */
  static async create(path: string, onWritten: (bytes: number) => void): Promise<HashingFileWriter> {
    return new HashingFileWriter(await open(path, "wx"), onWritten);
  }

  /** `chunk` may be used again once this has settled. */
  async write(chunk: Uint8Array): Promise<void> {
    const writing = this.#writeFully(chunk);
    this.#hash.update(chunk);
    await writing;
    this.#bytes += chunk.byteLength;
    this.#onWritten(chunk.byteLength);
    if (this.#bytes - this.#flushedBytes >= FLUSH_EVERY_BYTES) {
      await this.#flush;
      this.#flushedBytes = this.#bytes;
      this.#flush = this.#file.datasync();
      // Awaited before the next flush or the end; until then a failure must not count as unhandled.
      this.#flush.catch(() => {});
    }
  }

  /** Returns once the file is on the disk. */
  async finish(): Promise<FileRecord> {
    await this.#flush;
    await this.#file.datasync();
    return { bytes: this.#bytes, sha256: this.#hash.digest("hex") };
  }

  /** Closes the file, finished or not. */
  async close(): Promise<void> {
    await Promise.allSettled([this.#flush]);
    await this.#file.close();
  }

  async #writeFully(chunk: Uint8Array): Promise<void> {
    let done = 0;
    while (done < chunk.byteLength) {
      const { bytesWritten } = await this.#file.write(chunk, done, chunk.byteLength - done);
      done += bytesWritten;
    }
  }
}
