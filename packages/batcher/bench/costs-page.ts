import { cpus } from "node:os";
import type { Figure } from "./figures.ts";
import { SLOW_RUN_MICROS } from "./shared-cost.ts";

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
  time, as they do where items are far apart or runs take long. \`shared_alone_slow_run_us\`: one at a time, with a run that sleeps
  ${SLOW_RUN_MICROS} µs; \`shared_alone_slow_run_asleep_us\`: the same with \`spinMicros: 0\`.
- \`wake_floor_us\`: two threads that do nothing but wake each other, one by \`Atomics.wait\`, the other by \`Atomics.waitAsync\`: what
  is left of \`shared_alone_asleep_us\` above it is the ring's. \`wake_floor_blocking_us\`: both by \`Atomics.wait\`.
- \`…_one_core\`: the same where all threads share one core.

An item alone costs little only where neither thread sleeps: to wake one costs more than all else. So each looks for a moment
first, and the two must do so together, as looks are in vain as long as the other side sleeps each time:

- The consumer looks for rows for up to 20 µs and keeps at it while most looks pay; after two in vain it sleeps at once for 4 waits,
  then 16, 64 and 256, with a trial of two or more looks in between. While it looks, and its last runs took 3 µs or less, it says so in
  a word that producers read.
- A producer looks for its results at the end of the tick, for 5 µs at most, while that word says that they will be there at once;
  never while it waits for other results, 16 times in a row at most before other I/O has its turn, and not where its own looks have
  not paid. When the word turns to 1 it tries anew, so that both sides try at the same time.
- Where runs take longer the word is 0, and all that is spent is a trial of two looks among up to 256 waits:
  compare the two \`slow_run\` figures.

| figure | median | samples | unit |
| --- | --- | --- | --- |
${rows.join("\n")}
`;
}

function shown(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
