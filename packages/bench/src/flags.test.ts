import { describe, expect, it } from "vitest";
import { FLAGS, withUnderscores } from "./flags.ts";

describe("withUnderscores", () => {
  it("changes hyphens in names of flags only", () => {
    expect(
      withUnderscores(["--request-batch-sizes", "1-2", "--work-dir=a-b", "--dry_run", "-h", "x-y", "--", "--a-b"]),
    ).toEqual(["--request_batch_sizes", "1-2", "--work_dir=a-b", "--dry_run", "-h", "x-y", "--", "--a-b"]);
  });

  it("leaves every flag as it is", () => {
    const names = FLAGS.map(({ name }) => `--${name}`);
    expect(withUnderscores(names)).toEqual(names);
    expect(withUnderscores(names.map((name) => `--${name.slice(2).replaceAll("_", "-")}`))).toEqual(names);
  });
});

it("has every flag of the reference benchmark", () => {
  const names = FLAGS.map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining(
      "platform arms server_cpus client_cpus num_threads num_processes work_dir preset max_vocab_size duration warmup repeats concurrencies request_batch_sizes connections dry_run".split(
        " ",
      ),
    ),
  );
});
