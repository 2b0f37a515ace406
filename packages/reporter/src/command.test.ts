import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixedSummary } from "../test/fixed-summary.ts";
import { runCommand } from "./command.ts";
import { renderFiles } from "./render-files.ts";

let folder: string;
let out: string;
let err: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "report-command-"));
  out = "";
  err = "";
});

afterEach(() => rmSync(folder, { recursive: true }));

function command(...args: readonly string[]): number {
  return runCommand({ args, stdout: (text) => (out += text), stderr: (text) => (err += text) });
}

function save(name: string, value: unknown = fixedSummary()): string {
  const place = path.join(folder, name);
  mkdirSync(place);
  writeFileSync(path.join(place, "summary.json"), typeof value === "string" ? value : JSON.stringify(value));
  return place;
}

describe("dlrm-report render", () => {
  it("writes every file beside the summary", () => {
    const place = save("results");
    expect(command("render", place)).toBe(0);
    const files = renderFiles(fixedSummary());
    expect(out.trimEnd().split("\n")).toEqual(files.map((file) => path.join(place, file.path)));
    for (const file of files) expect(readFileSync(path.join(place, file.path), "utf8")).toBe(file.text);
  });

  it("writes elsewhere where told to", () => {
    const place = save("results");
    expect(command("render", path.join(place, "summary.json"), "--out", path.join(folder, "new"))).toBe(0);
    expect(readFileSync(path.join(folder, "new", "REPORT.md"), "utf8")).toMatch(/^# Benchmark/);
  });

  it.each([
    ["is no JSON", "{", /^dlrm-report: .*summary\.json is no JSON: /],
    ["is no summary", { schemaVersion: 2 }, /^dlrm-report: .*summary\.json: not a summary of schema version 1: /],
  ])("fails on a file that %s, with its name", (_, value, message) => {
    expect(command("render", save("results", value))).toBe(1);
    expect(err).toMatch(message);
  });

  it("fails on what is not there", () => {
    expect(command("render", path.join(folder, "nothing"))).toBe(1);
    expect(err).toMatch(/^dlrm-report: cannot read .*nothing: ENOENT/);
  });

  it("fails where it cannot write", () => {
    const place = save("results");
    writeFileSync(path.join(place, "charts"), "in the way");
    expect(command("render", place)).toBe(1);
    expect(err).toMatch(/^dlrm-report: cannot write .*throughput\.light\.svg: E/);
  });

  it("leaves no part of a file that it cannot put in place", () => {
    const place = save("results");
    mkdirSync(path.join(place, "report.html"));
    expect(command("render", place)).toBe(1);
    expect(err).toMatch(/^dlrm-report: cannot write .*report\.html: E/);
    expect(readdirSync(place).sort()).toEqual(["charts", "report.html", "summary.json"]);
  });

  // Node's own recursive mkdir never returns there.
  it.skipIf(!existsSync("/proc/self"))("fails under a folder that takes none (needs /proc)", () => {
    expect(command("render", save("results"), "--out", "/proc/dlrm/report")).toBe(1);
    expect(err).toMatch(/^dlrm-report: cannot write \/proc\/dlrm\/report\/charts\/.*: (ENOENT|EACCES|EPERM)/);
  });
});

describe("dlrm-report compare", () => {
  it("prints Markdown, or JSON", () => {
    const [a, b] = [save("a"), save("b")];
    expect(command("compare", a, b)).toBe(0);
    expect(out).toContain(`- A: ${a} (dcnv2-6m on sim)`);
    out = "";
    expect(command("compare", a, b, "--format", "json", "--seed", "3")).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ onlyA: [], onlyB: [], changes: [] });
  });

  it.each([
    [["compare", "a"], "missing required argument 'B'"],
    [["compare", "a", "b", "--confidence", "95"], "Expected a number over 0 and under 1."],
    [["compare", "a", "b", "--resamples", "99"], "Expected a whole number of at least 100."],
    [["compare", "a", "b", "--seed", "x"], "Expected a whole number of at least 0."],
    [["compare", "a", "b", "--format", "xml"], "Expected one of markdown, json."],
    [["compare", "a", "b", "--formt", "json"], "(Did you mean --format?)"],
    [["rendr", "a"], "(Did you mean render?)"],
  ])("%j is wrong usage", (args, message) => {
    expect(command(...args)).toBe(2);
    expect(err).toContain(message);
  });
});

it("says its version", () => {
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  expect([command("--version"), out]).toEqual([0, `${(JSON.parse(manifest) as { version: string }).version}\n`]);
});

it("has help", () => {
  expect(command("--help")).toBe(0);
  expect(out).toContain("compare [options] <A> <B>");
});
