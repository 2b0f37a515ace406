import { spawnSync } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const packageDir = path.resolve(fileURLToPath(import.meta.url), "../..");
let dir = "";

beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "build-native-"));
  const isSource = (file: string) => !file.endsWith(".node") && path.basename(file) !== "target";
  await cp(path.join(packageDir, "native"), path.join(dir, "native"), { recursive: true, filter: isSource });
  await mkdir(path.join(dir, "src"));
  for (const file of ["native-binding.ts", "embedding-error.ts"]) {
    await cp(path.join(packageDir, "src", file), path.join(dir, "src", file));
  }
  await writeFile(path.join(dir, "package.json"), '{ "type": "module" }');
});
afterAll(() => rm(dir, { recursive: true }));

/** Runs the build with these programs, given as shell scripts, as the only ones there are. */
async function build(programs: Readonly<Record<string, string>>, ...args: string[]) {
  const bin = path.join(dir, "bin");
  await rm(bin, { recursive: true, force: true });
  await mkdir(bin);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(path.join(bin, name), `#!/bin/sh\n${script}\n`);
    await chmod(path.join(bin, name), 0o755);
  }
  const script = path.join(dir, "native/build.mts");
  return spawnSync(process.execPath, [script, ...args], { encoding: "utf8", env: { PATH: bin } });
}

const rust = "echo 'rustc 1.95.0 (abc)'";

describe.skipIf(process.platform === "win32")(
  "the build of the native kernel (its stand-ins for cargo are shell scripts)",
  () => {
    test.each([
      ["Rust is not installed", {}],
      ["Rust 1.63 is older than 1.89", { rustc: "echo 'rustc 1.63.0 (abc)'" }],
      ["cargo is not installed", { rustc: rust }],
      ["no linker: install a C compiler", { rustc: rust, cargo: "echo 'error: linker `cc` not found' >&2; exit 101" }],
      [
        "error: failed to download `napi`",
        { rustc: rust, cargo: "echo 'error: failed to download `napi`' >&2; exit 101" },
      ],
    ])("says in one line that %s, and succeeds", async (reason, programs) => {
      const { status, stdout, stderr } = await build(programs);
      expect(status).toBe(0);
      expect(stdout).toBe("");
      const lines = stderr
        .trim()
        .split("\n")
        .filter((line) => !line.includes("building with cargo"));
      expect(lines).toEqual([`native gather kernel not built (${reason}): using the portable kernel, which is slower`]);
    });

    test("fails with --required", async () => {
      const { status, stderr } = await build({}, "--required");
      expect(status).toBe(1);
      expect(stderr).toBe("native gather kernel not built: Rust is not installed\n");
    });

    test("builds once, and again only when a source changes", async () => {
      const library =
        process.platform === "darwin" ? "libdlrm_embedding_binding.dylib" : "libdlrm_embedding_binding.so";
      const release = path.join(dir, "native/target/release");
      await mkdir(release, { recursive: true });
      const cargo = `printf built > '${release}/${library}'`;
      expect((await build({ rustc: rust, cargo })).stderr).toContain("native gather kernel: built dlrm-embedding.");
      expect(await build({})).toMatchObject({ status: 0, stderr: "native gather kernel: up to date\n" });
      await writeFile(path.join(dir, "native/kernel/src/new.rs"), "");
      expect((await build({})).stderr).toContain("Rust is not installed");
    });
  },
);
