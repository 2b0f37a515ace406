import { shortNumber, ticks } from "./svg.ts";

/** Where values lie along an axis. */
export interface Scale {
  readonly ticks: readonly { readonly value: number; readonly label: string }[];
  /** 0 at the start of the axis, 1 at its end. */
  position(value: number): number;
}

/** From 0 to a round number of at least `max`. */
export function linearScale(max: number, count = 5): Scale {
  const values = ticks(max, count);
  const top = values.at(-1) ?? 1;
  return { ticks: values.map(labelled), position: (value) => value / top };
}

/** From the largest of 1, 2, 5 × 10ⁿ that is not over `min`, to the smallest that is not under `max`; both over 0. */
export function logScale(min: number, max: number): Scale {
  const steps: number[] = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power++) {
    steps.push(...[1, 2, 5].map((factor) => Number((factor * 10 ** power).toPrecision(1))));
  }
  const first = steps.findLastIndex((step) => step <= min);
  const last = steps.findIndex((step) => step >= max && step > (steps[first] ?? 0));
  const inside = steps.slice(first, last + 1);
  const low = inside[0] ?? min;
  const high = inside.at(-1) ?? max;
  // Over more than three powers only the powers are named.
  const shown = inside.length > 10 ? inside.filter((step) => /^10*$|^0?\.?0*1$/.test(String(step))) : inside;
  return {
    ticks: shown.map(labelled),
    position: (value) => Math.log(value / low) / Math.log(high / low),
  };
}

/** Even steps, one a value: for amounts that grow by a factor. */
export function stepScale(values: readonly number[], label: (value: number) => string): Scale {
  return {
    ticks: values.map((value) => ({ value, label: label(value) })),
    position: (value) => (values.length === 1 ? 0.5 : values.indexOf(value) / (values.length - 1)),
  };
}

function labelled(value: number): { value: number; label: string } {
  return { value, label: shortNumber(value) };
}
