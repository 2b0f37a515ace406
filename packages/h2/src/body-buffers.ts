/** Smallest and largest bodies, powers of two, whose memory is worth keeping: 16 KiB and 4 MiB. */
const LEAST_BITS = 14;
const MOST_BITS = 22;
/** Bytes kept of each size, at most. */
const KEPT_BYTES = 4 * 1024 * 1024;

const kept: Buffer[][] = Array.from({ length: MOST_BITS + 1 }, () => []);

/** What `allocateBody` takes for a body of that size. */
export function bodyMemoryBytes(bytes: number): number {
  const bits = bitsOf(bytes);
  return bits < LEAST_BITS || bits > MOST_BITS ? bytes : 2 ** bits;
}

/**
 * Memory for a body that is assembled. That of bodies which are only lent to their receiver comes back by `releaseBody`, so
 * that large bodies make no work for the garbage collector.
 */
export function allocateBody(bytes: number): Buffer {
  const memoryBytes = bodyMemoryBytes(bytes);
  return kept[bitsOf(memoryBytes)]?.pop() ?? Buffer.allocUnsafeSlow(memoryBytes);
}

/** The buffer that `allocateBody` returned, of which no view is in use any more. */
export function releaseBody(buffer: Buffer): void {
  const bits = 31 - Math.clz32(buffer.length);
  if (bits < LEAST_BITS || bits > MOST_BITS || buffer.length !== 2 ** bits) return;
  const ofSize = kept[bits];
  if (ofSize !== undefined && ofSize.length * buffer.length < KEPT_BYTES) ofSize.push(buffer);
}

/** Of the power of two that is no smaller. */
function bitsOf(bytes: number): number {
  return 32 - Math.clz32(bytes - 1);
}
