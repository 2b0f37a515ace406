import { measureSharedCost } from "./shared-cost.ts";

// Started by `measureOnOneCore`, which has bound this process to a core.
console.log(JSON.stringify(await measureSharedCost(Number(process.argv[2]))));
