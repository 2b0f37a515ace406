import { execFileSync } from "node:child_process";
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";

/** A browser to be started, and the environment that it needs. */
export interface ChromiumBinary {
  readonly executablePath: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Chromium of the PATH, or the one of the package `@sparticuz/chromium` (Linux on x64); undefined where neither is. */
export const CHROMIUM: ChromiumBinary | undefined = installedChromium() ?? packagedChromium();

function installedChromium(): ChromiumBinary | undefined {
  const executablePath = ["chromium", "chromium-browser", "google-chrome"]
    .flatMap((name) => (process.env["PATH"] ?? "").split(path.delimiter).map((folder) => path.join(folder, name)))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
  return executablePath === undefined ? undefined : { executablePath };
}

/** Unpacked once a version, with the libraries that it needs and a small system lacks (NSS, Expat). */
function packagedChromium(): ChromiumBinary | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const root = path.resolve(path.dirname(fileURLToPath(import.meta.resolve("@sparticuz/chromium"))), "../..");
  const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };
  const folder = path.join(tmpdir(), `reporter-chromium-${version}`);
  if (!existsSync(folder)) unpack(path.join(root, "bin"), folder);
  const libraries = [process.env["LD_LIBRARY_PATH"], path.join(folder, "lib")].filter(Boolean).join(":");
  const env = { ...(process.env as Record<string, string>), LD_LIBRARY_PATH: libraries };
  return { executablePath: path.join(folder, "chromium"), env };
}

function unpack(packed: string, folder: string): void {
  mkdirSync(path.dirname(folder), { recursive: true });
  const partial = mkdtempSync(`${folder}-`);
  const executable = path.join(partial, "chromium");
  writeFileSync(executable, brotliDecompressSync(readFileSync(path.join(packed, "chromium.br"))));
  chmodSync(executable, 0o755);
  execFileSync("tar", ["-x", "-C", partial], {
    input: brotliDecompressSync(readFileSync(path.join(packed, "al2023.tar.br"))),
  });
  try {
    renameSync(partial, folder);
  } catch (error) {
    // Another process was quicker.
    rmSync(partial, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
}
