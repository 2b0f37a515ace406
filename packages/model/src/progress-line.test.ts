import { expect, test } from "vitest";
import { describeProgress, ProgressLine } from "./progress-line.ts";

function recorder(isTTY: boolean): { isTTY: boolean; text: string[]; write(text: string): void } {
  const text: string[] = [];
  return { isTTY, text, write: (line) => text.push(line) };
}

test("progress says how far, how fast and how long", () => {
  expect(describeProgress(1.2e9, 3.2e9, 2000)).toBe("1.2 of 3.2 GB (37 %), 600 MB/s, 4 s left");
  expect(describeProgress(3.2e9, 3.2e9, 2000)).toBe("3.2 of 3.2 GB (100 %), 1600 MB/s, 0 s left");
  expect(describeProgress(4096, 2e6, 500)).toBe("0.000 of 0.002 GB (0 %), 0 MB/s, 244 s left");
});

test("before the first byte and half a second there is no speed", () => {
  expect(describeProgress(0, 1e9, 5000)).toBe("0.000 of 1.0 GB (0 %)");
  expect(describeProgress(1e9, 2e9, 499)).toBe("1.0 of 2.0 GB (50 %)");
  expect(describeProgress(0, 0, 0)).toBe("0.000 of 0.000 GB (100 %)");
});

test("a terminal's line is redrawn ten times a second, and erased at the end", () => {
  const output = recorder(true);
  let nowMs = 0;
  const line = new ProgressLine("writing", output, () => nowMs);
  for (nowMs of [1050, 1100, 1149, 1150, 1200]) line.update(nowMs * 1e6, 4e9);
  line.clear();
  expect(output.text).toEqual([
    "\r\u001B[2Kwriting: 1.1 of 4.0 GB (26 %), 1000 MB/s, 3 s left",
    "\r\u001B[2Kwriting: 1.1 of 4.0 GB (28 %), 1000 MB/s, 3 s left",
    "\r\u001B[2K",
  ]);
});

test("a log gets a line every two seconds, and keeps it", () => {
  const output = recorder(false);
  let nowMs = 0;
  const line = new ProgressLine("writing", output, () => nowMs);
  for (nowMs of [0, 1000, 1999, 2000, 3999, 4000]) line.update(nowMs * 1e6, 4e9);
  line.clear();
  expect(output.text).toHaveLength(3);
  expect(output.text[1]).toBe("writing: 2.0 of 4.0 GB (50 %), 1000 MB/s, 2 s left\n");
});

test("nothing shown, nothing erased", () => {
  const output = recorder(true);
  new ProgressLine("writing", output).clear();
  expect(output.text).toEqual([]);
});
