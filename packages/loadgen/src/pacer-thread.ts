/** Entry file of the pacer's thread: sleeps until sends are due and wakes the main thread. */
import { parentPort, workerData } from "node:worker_threads";
import { nowMicros } from "./monotonic-clock.ts";
import { CONTROL, CONTROL_GO, CONTROL_WAIT, type PacerData, WAKE_UPS } from "./pacer.ts";

const { schedule, cell, minGapMicros } = workerData as PacerData;

parentPort?.postMessage("waiting");
Atomics.wait(cell, CONTROL, CONTROL_WAIT);

let next = 0;
let earliest = 0;
while (Atomics.load(cell, CONTROL) === CONTROL_GO && next < schedule.length) {
  const now = nowMicros();
  const due = Math.max(schedule[next] as number, earliest);
  if (due > now) {
    Atomics.wait(cell, CONTROL, CONTROL_GO, (due - now) / 1000);
    continue;
  }
  while (next < schedule.length && (schedule[next] as number) <= now) next++;
  earliest = now + minGapMicros;
  Atomics.add(cell, WAKE_UPS, 1);
  Atomics.notify(cell, WAKE_UPS);
}
