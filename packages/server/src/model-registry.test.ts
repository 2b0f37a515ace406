import { expect, test } from "vitest";
import { ModelRegistry } from "./model-registry.ts";

const registryOf = (...models: [name: string, version: string][]): ModelRegistry<{ name: string; version: string }> => {
  const registry = new ModelRegistry<{ name: string; version: string }>();
  for (const [name, version] of models) registry.add({ name, version });
  return registry;
};

test("empty names mean the only model and its newest version", () => {
  const registry = registryOf(["a", "1"], ["a", "2"]);
  expect(registry.resolve("", "")).toEqual({ name: "a", version: "2" });
  expect(registry.resolve("", "1")).toEqual({ name: "a", version: "1" });
  expect(registry.resolve("a", "2")).toEqual({ name: "a", version: "2" });
  expect(registry.all).toHaveLength(2);
});

test("an empty name among several models is refused with their names", () => {
  const registry = registryOf(["a", "1"], ["b", "1"]);
  expect(() => registry.resolve("", "")).toThrow('no model is named: expected one of "a", "b"');
  expect(registry.resolve("b", "")).toEqual({ name: "b", version: "1" });
});

test.each([
  [registryOf(), "", "", 'unknown model "": the server has none'],
  [registryOf(["a", "1"], ["b", "2"]), "c", "", 'unknown model "c": the server has "a", "b"'],
  [registryOf(["a", "1"], ["a", "2"]), "a", "3", 'unknown version "3" of model "a": the server has "1", "2"'],
  [registryOf(["a", "1"]), "__proto__", "", 'unknown model "__proto__": the server has "a"'],
])("what is not there is not_found, with what is: %#", (registry, name, version, message) => {
  expect(() => registry.resolve(name, version)).toThrow(
    expect.objectContaining({ code: "not_found", message }) as Error,
  );
});

test("the same model twice is refused", () => {
  expect(() => registryOf(["a", "1"], ["a", "1"])).toThrow('model "a" version "1" is given twice');
});
