/** Of all systems that this runs on, the least. */
const PAGE_BYTES = 4096;

/**
 * Makes the system give a buffer all its memory now, and changes nothing in it. Otherwise it does so when a page is first written,
 * a few microseconds each: for rows that are used only when requests pile up that would be when there is least time.
 */
export function touchPages(buffer: SharedArrayBuffer): void {
  const bytes = new Uint8Array(buffer);
  for (let at = 0; at < bytes.length; at += PAGE_BYTES) Atomics.or(bytes, at, 0);
}
