import { expect, it } from "vitest";
import { Progress } from "./progress.ts";

function written(isTTY: boolean, use: (progress: Progress) => void): string {
  let text = "";
  use(new Progress({ isTTY, columns: 20, write: (part: string) => (text += part) }));
  return text;
}

it("shows step, count and time left, one line a step", () => {
  const text = written(false, (progress) => {
    progress.step(0, 12, "model", 100);
    progress.update("never shown");
    progress.step(11, 12, "report", 1);
    progress.end();
  });
  expect(text).toBe("[ 1/12] model (2 min left)\n[12/12] report (1 s left)\n");
});

it("replaces the live line on a terminal, and cuts it to the terminal's width", () => {
  const text = written(true, (progress) => {
    progress.update("a");
    progress.update("0123456789012345678901234");
    progress.note("done");
  });
  expect(text).toBe("  a\r\u001B[K  01234567890123456\r\u001B[Kdone\n");
});
