import { expect, test } from "vitest";
import { touchPages } from "./touch-pages.ts";

test("the page in which a range ends has its memory too, though the range begins in the middle of one", () => {
  const pageBytes = 4096;
  const ranges = 1024;
  const buffer = new SharedArrayBuffer(4 * ranges * pageBytes);
  const views = Array.from(
    { length: ranges },
    (_, range) => new Float32Array(buffer, (4 * range + 1) * pageBytes - 64, 32),
  );
  for (const view of views) touchPages(view, view.byteLength);
  const faultsBefore = process.resourceUsage().minorPageFault;
  for (const view of views) view.fill(1);
  expect(process.resourceUsage().minorPageFault - faultsBefore).toBeLessThan(ranges / 2);
});

test("a page is given once, not first for reading", () => {
  const tensor = new Float32Array(new SharedArrayBuffer(2048 * 4096));
  const faultsBefore = process.resourceUsage().minorPageFault;
  touchPages(tensor, tensor.byteLength);
  // 4096, were each given twice.
  expect(process.resourceUsage().minorPageFault - faultsBefore).toBeLessThan(3072);
});

test("no more than the range is touched, and what stands there stays", () => {
  const tensor = new Float32Array(new SharedArrayBuffer(2048 * 4096)).fill(1, 0, 2048);
  const faultsBefore = process.resourceUsage().minorPageFault;
  touchPages(tensor, 0);
  touchPages(tensor, 16 * 4096);
  expect(process.resourceUsage().minorPageFault - faultsBefore).toBeLessThan(256);
  expect([...tensor.subarray(0, 4096)]).toEqual([...new Float32Array(4096).fill(1, 0, 2048)]);
});
