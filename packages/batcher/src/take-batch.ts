import type { Arrival } from "./arrival.ts";
import type { Counters } from "./batcher-stats.ts";
import type { Entry } from "./entry.ts";
import type { EntryQueue, Taken } from "./entry-queue.ts";

/** What is told of entries as they leave the queue for a batch. */
interface TakeHandlers<Result> {
  /** It is not for the batch, as its deadline has passed; takes it out of the queue. */
  expired(entry: Entry<Result>): void;
  runs(entry: Entry<Result>): void;
}

/** Takes what runs next, within these bounds, by priority and age. A first item is taken whatever its size. */
export function takeOneByOne<Item, Result>(
  queue: EntryQueue<Item, Result>,
  maxItems: number,
  maxSize: number,
  nowMs: number,
  handlers: TakeHandlers<Result>,
): Taken<Item, Result> {
  const taken: Taken<Item, Result> = { waiting: [], items: [], arrivals: [], size: 0 };
  for (let priority = queue.next(nowMs); priority >= 0; priority = queue.next(nowMs)) {
    const first = queue.first(priority);
    const size = typeof first === "function" ? 1 : first.size;
    if (typeof first === "object" && first.deadlineAtMs <= nowMs) {
      // Its timer is late; the last moment to notice is now.
      handlers.expired(first);
      continue;
    }
    if (taken.waiting.length >= maxItems || (taken.waiting.length > 0 && taken.size + size > maxSize)) {
      break;
    }
    taken.waiting.push(first);
    taken.items.push(queue.firstItem(priority));
    taken.arrivals.push(queue.firstArrival(priority));
    taken.size += size;
    queue.shift(priority);
    if (typeof first === "object") {
      first.state = "running";
      handlers.runs(first);
    }
  }
  return taken;
}

/** Counts how long the items of a batch have waited, those together that came together. */
export function countDelays<Item, Result>(
  { arrivals, items }: Taken<Item, Result>,
  nowMs: number,
  counters: Counters,
): void {
  let arrival = arrivals[0] as Arrival;
  if (arrivals.length === 1) {
    counters.delayed(nowMs - arrival.atMs, items.length);
    return;
  }
  let together = 0;
  for (const other of arrivals) {
    if (other !== arrival) {
      counters.delayed(nowMs - arrival.atMs, together);
      arrival = other;
      together = 0;
    }
    together += 1;
  }
  counters.delayed(nowMs - arrival.atMs, together);
}
