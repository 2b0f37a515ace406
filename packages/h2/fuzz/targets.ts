import { checkClient, checkServer, makeClientFrames, makeServerFrames } from "./frames-target.ts";
import type { FuzzTarget } from "./fuzzer.ts";
import { checkBlocks, makeBlocks } from "./hpack-target.ts";

export const fuzzTargets: readonly FuzzTarget[] = [
  { name: "hpack", make: makeBlocks, check: checkBlocks },
  { name: "server", make: makeClientFrames, check: checkServer },
  { name: "client", make: makeServerFrames, check: checkClient },
];
