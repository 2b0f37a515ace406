/**
 * `npm run pack:check [packages/NAME …]`: what would be published is what a user can install.
 * Each package is packed, judged by publint and attw; then all tarballs are installed together in an empty project, in
 * which every entry is imported and every command answers `--help`; a package without dependencies is also installed alone.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { binDir, root, workspacePackages, type WorkspacePackage } from "./workspace.mts";

const env = { ...process.env, PATH: `${binDir}${path.delimiter}${process.env["PATH"] ?? ""}` };
const wanted = process.argv.slice(2).map((dir) => dir.replace(/\/$/, ""));
const all = workspacePackages();
const unknown = wanted.filter((dir) => !all.some((each) => each.dir === dir));
if (unknown.length > 0) {
  console.error(
    `unknown package folder: ${unknown.join(", ")}; expected one of ${all.map((each) => each.dir).join(", ")}`,
  );
  process.exit(2);
}

const failures: string[] = [];
const scratch = mkdtempSync(path.join(os.tmpdir(), "dlrm-packs-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

function check(what: string, file: string, args: readonly string[], cwd = root): void {
  const { status, stdout, stderr } = spawnSync(file, args, { cwd, env, encoding: "utf8" });
  if (status === 0) return;
  failures.push(what);
  console.error(`FAILED ${what}\n${stdout}${stderr}`);
}

function pack(each: WorkspacePackage): string {
  const out = execFileSync("npm", ["pack", "--json", "--pack-destination", scratch], {
    cwd: path.join(root, each.dir),
    env,
    encoding: "utf8",
  });
  const parsed = JSON.parse(out) as { filename: string }[] | Record<string, { filename: string }>;
  const [first] = Object.values(parsed);
  if (first === undefined) throw new Error(`npm pack of ${each.dir} named no file: ${out}`);
  return path.join(scratch, first.filename);
}

function entries(each: WorkspacePackage): string[] {
  return Object.entries(each.manifest.exports)
    .filter(([key, value]) => value !== null && !key.includes("*") && !key.endsWith(".json"))
    .map(([key]) => each.name + key.slice(1));
}

function install(dir: string, specs: readonly string[]): void {
  mkdirSync(dir);
  writeFileSync(path.join(dir, "package.json"), JSON.stringify({ name: "consumer", private: true, type: "module" }));
  check(
    `install ${specs.map((spec) => path.basename(spec)).join(" ")}`,
    "npm",
    ["install", "--no-audit", "--no-fund", ...specs],
    dir,
  );
}

const tarballs = new Map(all.map((each) => [each.name, pack(each)]));
const judged = wanted.length === 0 ? all : all.filter((each) => wanted.includes(each.dir));
for (const each of judged) {
  const tarball = tarballs.get(each.name) ?? "";
  check(`publint ${each.name}`, "publint", [tarball, "--strict"]);
  check(`attw ${each.name}`, "attw", [tarball, "--profile", "esm-only", "--no-emoji", "--no-color"]);
  console.log(`judged ${each.name}`);
}

const consumer = path.join(scratch, "consumer");
install(consumer, [...tarballs.values()]);
for (const each of judged) {
  for (const entry of entries(each)) {
    check(
      `import ${entry}`,
      process.execPath,
      ["--input-type=module", "-e", `await import(${JSON.stringify(entry)})`],
      consumer,
    );
  }
  for (const command of Object.keys(each.manifest.bin ?? {})) {
    check(`${command} --help`, path.join(consumer, "node_modules/.bin", command), ["--help"], consumer);
  }
}
for (const each of judged.filter((one) => Object.keys(one.manifest.dependencies ?? {}).length === 0)) {
  const alone = path.join(scratch, `alone-${path.basename(each.dir)}`);
  install(alone, [tarballs.get(each.name) ?? ""]);
  // An entry of its own may need an optional peer; the main one may not.
  const hasPeers = Object.keys(each.manifest.peerDependencies ?? {}).length > 0;
  for (const entry of hasPeers ? [each.name] : entries(each)) {
    check(
      `import ${entry} alone`,
      process.execPath,
      ["--input-type=module", "-e", `await import(${JSON.stringify(entry)})`],
      alone,
    );
  }
}
console.log(
  failures.length === 0
    ? `${judged.length} packages can be published`
    : `${failures.length} checks failed: ${failures.join("; ")}`,
);
process.exitCode = failures.length === 0 ? 0 : 1;
