import { cpus } from "node:os";
import type { Figure } from "./figures.ts";

/** docs/costs.md: every figure of overhead, with the range of its samples. */
export function costsPage(figures: readonly Figure[]): string {
  const rows = figures.map(({ name, value, unit, samples }) => {
    const range = `${shown(Math.min(...samples))} to ${shown(Math.max(...samples))}`;
    return `| \`${name}\` | ${shown(value)} | ${range} | ${unit} |`;
  });
  const [cpu] = cpus();
  return `# What an item costs

Made by \`node --conditions=@dlrm/source packages/batcher/bench/run.ts --only costs --docs\`; do not edit. Node ${process.version},
${cpus().length} cores (${cpu?.model.trim() ?? "unknown"}), nothing else running. Medians and ranges of the samples.

- \`inthread_*\`: CPU time of the process, for each of 1,000 items submitted at once and run in batches of 100 by a function that does
  nothing; \`dataloader\` without its cache, by turns, in the same process. A sample is a process.
- \`shared_alone_us\`: one item at a time through the shared ring, each the only one of its batch, CPU of both threads together;
  \`shared_batched_us\`: in batches of 64. \`shared_alone_asleep_us\`: one at a time with \`spinMicros: 0\`, so that both threads sleep each
  time, as they do where items are far apart or runs take long.
- \`wake_floor_us\`: two threads that do nothing but wake each other, one by \`Atomics.wait\`, the other by \`Atomics.waitAsync\`: what
  is left of \`shared_alone_asleep_us\` above it is the ring's. \`wake_floor_blocking_us\`: both by \`Atomics.wait\`.
- \`…_one_core\`: the same where all threads share one core.

| figure | median | samples | unit |
| --- | --- | --- | --- |
${rows.join("\n")}
`;
}

function shown(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
