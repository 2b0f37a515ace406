/**
 * Packages beside one of ours, each of which holds its native library for one platform:
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
import { parseArgs } from "node:util";

export interface PlatformPackages {
  /** Of the package that they belong to; the library built here is in its `native`. */
  readonly packageDir: string;
  /** What the library is, as the description says it. */
  readonly what: string;
  /** The library's file name. */
  readonly library: (platform: string) => string;
  /** How npm knows each platform. */
  readonly platforms: Readonly<Record<string, object>>;
  readonly thisPlatform: string;
}

interface Manifest {
  readonly name: string;
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

function make(packages: PlatformPackages, dir: string, platform: string, library: string): void {
  const { packageDir, what, platforms } = packages;
  const limits = platforms[platform];
  if (limits === undefined) fail(`platform is ${platform}, expected one of ${Object.keys(platforms).join(", ")}`);
  const { name, version, license, repository, engines } = readManifest(path.join(packageDir, "package.json"));
  const file = packages.library(platform);
  mkdirSync(dir, { recursive: true });
  copyFileSync(library, path.join(dir, file));
  writeManifest(path.join(dir, "package.json"), {
    name: `${name}-${platform}`,
    version,
    description: `The ${what} of ${name} for ${platform}.`,
    license,
    repository,
    main: file,
    files: [file],
    ...limits,
    engines,
    publishConfig: { access: "public", provenance: true },
  });
}

function requireAll({ platforms }: PlatformPackages, file: string): void {
  const manifest = readManifest(file);
  const added = Object.keys(platforms).map((platform) => [`${manifest.name}-${platform}`, manifest.version]);
  manifest.optionalDependencies = { ...manifest.optionalDependencies, ...Object.fromEntries(added) };
  writeManifest(file, manifest);
}

/** Runs the command line of this process; ends it with code 2 where that is wrong. */
export function platformPackage(packages: PlatformPackages): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { library: { type: "string" }, platform: { type: "string" } },
  });
  const [command, target] = positionals;
  if (target === undefined || positionals.length > 2) fail("expected make DIR or require PACKAGE_JSON");
  const platform = values.platform ?? packages.thisPlatform;
  const library = values.library ?? path.join(packages.packageDir, "native", packages.library(platform));
  if (command === "make") make(packages, target, platform, library);
  else if (command === "require") requireAll(packages, target);
  else fail(`command is ${command}, expected make or require`);
}
