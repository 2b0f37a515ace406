import { measureOverhead } from "./overhead.ts";

// One process of `measureOverheadInProcesses`.
console.log(JSON.stringify(await measureOverhead(Number(process.argv[2]))));
