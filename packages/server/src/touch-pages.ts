/** Of all systems that this runs on, the least. */
const PAGE_BYTES = 4096;

/**
 * Makes the system give the first bytes of a buffer their memory now, and changes nothing in them. Otherwise it does so when a page is
 * first written, a few microseconds each: for rows that are used only when requests pile up that would be when there is least time.
 */
export function touchPages({ buffer, byteOffset }: Float32Array<SharedArrayBuffer>, byteCount: number): void {
  const bytes = new Uint8Array(buffer, byteOffset);
  for (let at = 0; at < Math.min(byteCount, bytes.length); at += PAGE_BYTES) Atomics.or(bytes, at, 0);
}
