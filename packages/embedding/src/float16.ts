/** Value of a float16, by its bits. */
export function float16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** Bits of the float16 nearest to a value, ties to even; beyond 65,520 infinity. */
export function numberToFloat16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  // Subnormals are multiples of 2^-24, and 1024 of them are the first normal number, by its bits too.
  if (magnitude < 2 ** -14) return sign | roundToEven(magnitude * 2 ** 24);
  if (magnitude >= 65_520) return sign | 0x7c00;
  const exponent = Math.floor(Math.log2(magnitude));
  // log2 may be off by one next to a power of two.
  const exact = magnitude < 2 ** exponent ? exponent - 1 : magnitude >= 2 ** (exponent + 1) ? exponent + 1 : exponent;
  // A fraction that rounds up to 2048 carries into the exponent.
  return sign | (((exact + 14) << 10) + roundToEven(magnitude * 2 ** (10 - exact)));
}

/** The nearest integer, ties to even. */
export function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
