import { expect, it } from "vitest";
import { shellText } from "./shell-text.ts";

it("quotes what a shell would change, and nothing else", () => {
  expect(
    shellText({
      file: "/usr/bin/taskset",
      args: ["-c", "0-1,3", "a b", "it's", "", "$HOME"],
      env: { A: "x y", B: "1" },
    }),
  ).toBe(`A='x y' B=1 /usr/bin/taskset -c 0-1,3 'a b' 'it'\\''s' '' '$HOME'`);
});
