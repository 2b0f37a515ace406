/** A whole number with thousands separators. */
export function formatCount(value: number): string {
  return Math.round(value)
    .toString()
    .replaceAll(/\B(?=(\d{3})+$)/g, ",");
}

/** Three significant digits below 1,000, of them at most three behind the point; whole numbers with thousands separators from there. */
export function formatNumber(value: number): string {
  if (value >= 999.5)
    return Math.round(value)
      .toString()
      .replaceAll(/\B(?=(\d{3})+$)/g, ",");
  if (value === 0) return "0";
  // Of the rounded value: 9.999 is 10.0, not 10.00.
  const digits = Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(Number(value.toPrecision(3))))));
  return value.toFixed(digits);
}

export function formatOptional(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : formatNumber(value);
}

/** Binary units: MiB, and GiB from 1 GiB. */
export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  const mebibytes = bytes / 2 ** 20;
  return mebibytes < 1024 ? `${formatNumber(mebibytes)} MiB` : `${(mebibytes / 1024).toFixed(2)} GiB`;
}

/** A share of 1 as whole percents. */
export function formatPercent(fraction: number | null | undefined): string {
  return fraction === null || fraction === undefined ? "–" : `${Math.round(fraction * 100)} %`;
}

/** `2.35×`; three significant digits. */
export function formatRatio(ratio: number | null): string {
  return ratio === null ? "–" : `${formatNumber(ratio)}×`;
}

/** A value and, where there are several measurements of it, the smallest and the largest. */
export function formatSpread(value: number | null, spread: { min: number; max: number } | null, count: number): string {
  if (value === null) return "–";
  const text = formatNumber(value);
  return spread === null || count < 2 ? text : `${text} (${formatNumber(spread.min)}–${formatNumber(spread.max)})`;
}
