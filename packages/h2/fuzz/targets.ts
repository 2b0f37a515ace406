import { checkClient, checkServer, makeClientFrames, makeServerFrames } from "./frames-target.ts";
import type { FuzzTarget } from "./fuzzer.ts";
import { checkBlocks, makeBlocks } from "./hpack-target.ts";
import { mutateFrames } from "./mutate-frames.ts";

export const fuzzTargets: readonly FuzzTarget[] = [
  { name: "hpack", make: makeBlocks, check: checkBlocks },
  { name: "server", make: makeClientFrames, mutate: mutateFrames, check: checkServer },
  { name: "client", make: makeServerFrames, mutate: mutateFrames, check: checkClient },
];
