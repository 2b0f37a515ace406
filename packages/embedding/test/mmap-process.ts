import { openEmbeddingStore } from "../src/index.ts";
import { readAllRows } from "./read-all-rows.ts";

// Maps the file it is given, reads it, and keeps it mapped until its input ends.
const store = await openEmbeddingStore({ safetensors: process.argv[2] ?? "" }, { kernel: "native", mode: "mmap" });
readAllRows(store, "t");
process.stdin.resume().once("end", () => store.close());
console.log("ready");
