import { check } from "./check.js";

console.log(`checked: ${await check()}`);
