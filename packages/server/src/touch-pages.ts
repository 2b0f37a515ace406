/** Of all systems that this runs on, the least. */
const PAGE_BYTES = 4096;

/** Rows of a batch slot that have their memory from the start. Where more wait, some tens of milliseconds have gone by already. */
export const TOUCHED_ROWS = 1024;

type Tensor = Float32Array<SharedArrayBuffer>;

/** `touchPages` for the first `count` rows, or all if they are fewer, of tensors that have `rows` each. */
export function touchRows(tensors: readonly Tensor[], rows: number, count: number): void {
  for (const tensor of tensors) touchPages(tensor, (tensor.byteLength / rows) * Math.min(rows, count));
}

/**
 * Makes the system give the first bytes of a new tensor, all 0, their memory now, and changes nothing in them. Otherwise it does so when
 * a page is first written, a few microseconds each: for rows that are used only when requests pile up that would be when there is least
 * time.
 */
export function touchPages({ buffer, byteOffset, byteLength }: Tensor, byteCount: number): void {
  const bytes = new Uint8Array(buffer, byteOffset, Math.min(byteCount, byteLength));
  for (let at = 0; at < bytes.length; at += PAGE_BYTES) touch(bytes, at);
  // It may be in one page more than there are steps, as the first byte need not be the first of its page.
  if (bytes.length > 0) touch(bytes, bytes.length - 1);
}

/** With `Atomics.or` a page is read before it is written, and given twice: first one of zeros that all share. */
function touch(bytes: Uint8Array<SharedArrayBuffer>, at: number): void {
  Atomics.compareExchange(bytes, at, 0, 0);
}
