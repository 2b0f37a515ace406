export { FakeClock } from "./fake-clock.ts";
export { PuppetBatcher } from "./puppet-batcher.ts";
