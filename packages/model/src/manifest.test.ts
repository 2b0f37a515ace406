import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TINY_SPEC } from "../test/tiny-spec.ts";
import { formatManifest, manifestDigestMatches, parseManifest, type Manifest } from "./manifest.ts";
import { ModelError } from "./model-error.ts";

const RECORD = { bytes: 12, sha256: "ab".repeat(32) };
const MANIFEST: Manifest = {
  formatVersion: 1,
  name: "tiny",
  version: "1",
  seed: 4,
  spec: TINY_SPEC,
  buckets: [1, 2, 4],
  files: {
    "tables.safetensors": RECORD,
    "dense.safetensors": RECORD,
    "dense.onnx": RECORD,
    "dense.stablehlo.mlir": RECORD,
  },
};

const parse = (change: object): Manifest => parseManifest(JSON.stringify({ ...MANIFEST, ...change }));

describe("formatManifest", () => {
  test("writes text that parses back, with a digest of the text itself", () => {
    const text = formatManifest(MANIFEST);
    const { digest, ...manifest } = parseManifest(text);
    expect(manifest).toEqual(MANIFEST);
    expect(manifestDigestMatches(text, digest)).toBe(true);
  });

  test("keeps a name that looks like an empty digest", () => {
    const name = "0".repeat(64);
    const text = formatManifest({ ...MANIFEST, name });
    expect(parseManifest(text).name).toBe(name);
    expect(manifestDigestMatches(text, parseManifest(text).digest)).toBe(true);
  });

  test("any other byte, anywhere, is noticed: the text does not parse or does not match its digest", () => {
    const bytes = Buffer.from(formatManifest(MANIFEST));
    fc.assert(
      fc.property(fc.nat({ max: bytes.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] as number) ^ flip;
        const text = changed.toString("utf8");
        let manifest: Manifest;
        try {
          manifest = parseManifest(text);
        } catch (error) {
          expect(error).toBeInstanceOf(ModelError);
          return;
        }
        expect(manifestDigestMatches(text, manifest.digest)).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("parseManifest", () => {
  test("needs no digest: one written by hand can be read", () => {
    expect(parse({})).toEqual(MANIFEST);
    expect(manifestDigestMatches(JSON.stringify(MANIFEST), undefined)).toBe(false);
  });

  test("reports all problems at once", () => {
    const change = {
      name: "",
      version: 1,
      seed: -1,
      spec: { ...TINY_SPEC, embeddingDim: 0 },
      buckets: [1, 1],
      files: { ...MANIFEST.files, "dense.onnx": { bytes: -1, sha256: "AB" }, "../x": RECORD },
      digest: "0",
    };
    expect(() => parse(change)).toThrow(
      [
        "model.json is not valid:",
        '- name: expected a text, got ""',
        "- version: expected a text, got 1",
        "- seed: expected an integer from 0 to 4294967295, got -1",
        "- spec: embeddingDim: expected an integer from 1 to 1048576, got 0",
        "- spec: denseNetwork.bottomMlp: the last width must be embeddingDim (0), got 5",
        "- buckets: expected each to be larger than the one before, got [1,1]",
        '- files["dense.onnx"].bytes: expected a size in bytes, got -1',
        '- files["dense.onnx"].sha256: expected 64 hexadecimal digits, got "AB"',
        '- files["../x"]: unknown file, expected only tables.safetensors, dense.safetensors, dense.onnx, dense.stablehlo.mlir',
        '- digest: expected 64 hexadecimal digits, got "0"',
      ].join("\n"),
    );
  });

  test.each<[string, object, string]>([
    ["another format", { formatVersion: 2, name: "" }, "model.json is not valid:\n- formatVersion: expected 1, got 2"],
    ["no files", { files: undefined }, "files: expected an object"],
    ["a file missing", { files: {} }, "files: tables.safetensors is missing"],
    [
      "a file without size",
      { files: { ...MANIFEST.files, "dense.onnx": null } },
      'files["dense.onnx"].bytes: expected a size in bytes, got undefined',
    ],
    ["no buckets", { buckets: [] }, "buckets: expected a list of at least one batch size"],
    ["a bucket of none", { buckets: [0] }, "buckets: expected integers from 1 to 1048576, got [0]"],
  ])("refuses %s", (_name, change, message) => {
    expect(() => parse(change)).toThrow(message);
  });

  test("whatever the text is, the outcome is a manifest or an error of ours", () => {
    const anyText = fc.oneof(fc.string(), fc.json());
    const anyField = fc
      .tuple(fc.constantFrom(...Object.keys(MANIFEST)), fc.jsonValue())
      .map(([field, value]) => JSON.stringify({ ...MANIFEST, [field]: value }));
    const anySpecField = fc
      .tuple(fc.constantFrom(...Object.keys(TINY_SPEC)), fc.jsonValue())
      .map(([field, value]) => JSON.stringify({ ...MANIFEST, spec: { ...TINY_SPEC, [field]: value } }));
    const cut = fc.nat({ max: 2000 }).map((length) => formatManifest(MANIFEST).slice(0, length));
    fc.assert(
      fc.property(fc.oneof(anyText, anyField, anySpecField, cut), (text) => {
        try {
          expect(parseManifest(text).formatVersion).toBe(1);
        } catch (error) {
          expect(error).toBeInstanceOf(ModelError);
          expect((error as ModelError).code).toBe("invalid_bundle");
        }
      }),
      { numRuns: 2000 },
    );
  });
});
