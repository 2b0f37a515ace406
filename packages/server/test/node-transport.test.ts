import { describe } from "vitest";
import { setTestTransport } from "./serving-fixture.ts";

// Everything that is promised of the server is promised of both transports: these are the same tests, for the other one.
setTestTransport("node");

describe("scores", async () => {
  await import("./scores.test.ts");
});
describe("bad input", async () => {
  await import("./bad-input.test.ts");
});
describe("malformed requests", async () => {
  await import("./malformed.test.ts");
});
describe("load and limits", async () => {
  await import("./load-limits.test.ts");
});
describe("unfinished bodies", async () => {
  await import("./unfinished-body.test.ts");
});
describe("lifecycle", async () => {
  await import("./lifecycle.test.ts");
});
describe("reflection", async () => {
  await import("./reflection.test.ts");
});
