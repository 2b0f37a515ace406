/**
 * What is published beside `@dlrm/accelerator`: one package a platform, which holds the PJRT binding.
 *
 *     node native/platform-package.mts make DIR [--library FILE] [--platform NAME]
 *     node native/platform-package.mts require PACKAGE_JSON
 *
 * `make` writes the package of one platform (this one, with the library built here, unless they are given) to DIR. `require` adds all of
 * them to the `optionalDependencies` of a manifest that is about to be published; the committed one has none, as `npm ci` fails on
 * packages that are not published yet.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { PLATFORMS, platformName } from "../src/pjrt-native.ts";

const native = path.dirname(fileURLToPath(import.meta.url));

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly repository: unknown;
  readonly engines: unknown;
  optionalDependencies?: Record<string, string>;
}

const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8")) as Manifest;
const writeManifest = (file: string, manifest: unknown): void =>
  writeFileSync(file, `${JSON.stringify(manifest, undefined, 2)}\n`);

function fail(message: string): never {
  console.error(`platform-package: ${message}`);
  process.exit(2);
}

function make(dir: string, platform: string, library: string): void {
  const limits = PLATFORMS[platform];
  if (limits === undefined) fail(`platform is ${platform}, expected one of ${Object.keys(PLATFORMS).join(", ")}`);
  const { version, license, repository, engines } = readManifest(path.join(native, "../package.json"));
  const file = `dlrm-pjrt.${platform}.node`;
  mkdirSync(dir, { recursive: true });
  copyFileSync(library, path.join(dir, file));
  writeManifest(path.join(dir, "package.json"), {
    name: `@dlrm/accelerator-${platform}`,
    version,
    description: `The PJRT binding of @dlrm/accelerator for ${platform}.`,
    license,
    repository,
    main: file,
    files: [file],
    ...limits,
    engines,
    publishConfig: { access: "public", provenance: true },
  });
}

function requireAll(file: string): void {
  const manifest = readManifest(file);
  manifest.optionalDependencies = {
    ...manifest.optionalDependencies,
    ...Object.fromEntries(
      Object.keys(PLATFORMS).map((platform) => [`@dlrm/accelerator-${platform}`, manifest.version]),
    ),
  };
  writeManifest(file, manifest);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { library: { type: "string" }, platform: { type: "string" } },
});
const [command, target] = positionals;
if (target === undefined || positionals.length > 2) fail("expected make DIR or require PACKAGE_JSON");
const platform = values.platform ?? platformName();
if (command === "make") make(target, platform, values.library ?? path.join(native, `dlrm-pjrt.${platform}.node`));
else if (command === "require") requireAll(target);
else fail(`command is ${command}, expected make or require`);
