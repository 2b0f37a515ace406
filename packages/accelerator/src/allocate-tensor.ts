import type { SharedFloat32Array } from "./device.ts";
import { loadPjrtNative } from "./pjrt-native.ts";

/** What XLA wants of memory that it reads in place. */
const ALIGNMENT_BYTES = 64;

/**
 * Shared memory for `length` float32 numbers, all 0, that begins at a multiple of 64 bytes: devices that can read inputs in place
 * need that. Without the package's native binding, which only the `pjrt` device needs, it begins anywhere.
 */
export function allocateTensor(length: number): SharedFloat32Array {
  const result = loadPjrtNative();
  if (!("binding" in result)) return new Float32Array(new SharedArrayBuffer(length * 4));
  const buffer = new SharedArrayBuffer(length * 4 + ALIGNMENT_BYTES);
  const beyond = Number(result.binding.addressOf(new Float32Array(buffer)) % BigInt(ALIGNMENT_BYTES));
  return new Float32Array(buffer, (ALIGNMENT_BYTES - beyond) % ALIGNMENT_BYTES, length);
}
