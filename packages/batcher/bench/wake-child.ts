import { parentPort, workerData } from "node:worker_threads";
import { ANSWERED, ASKED } from "./shared-cost.ts";

const words = workerData as Int32Array<SharedArrayBuffer>;
parentPort?.postMessage("ready");
// Ends with `terminate`.
for (let round = 0; ; round += 1) {
  while (Atomics.load(words, ASKED) === round) {
    Atomics.wait(words, ASKED, round);
  }
  Atomics.store(words, ANSWERED, round + 1);
  Atomics.notify(words, ANSWERED);
}
