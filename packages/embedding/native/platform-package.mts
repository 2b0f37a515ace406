/**
 * What is published beside `@dlrm/embedding`: one package a platform, which holds the native gather kernel.
 * `node native/platform-package.mts make DIR | require PACKAGE_JSON`; see `tools/platform-package.mts`.
 */
import path from "node:path";
import { platformPackage } from "../../../tools/platform-package.mts";
import { PLATFORMS, platformName } from "../src/native-binding.ts";

platformPackage({
  packageDir: path.resolve(import.meta.dirname, ".."),
  what: "native gather kernel",
  library: (platform) => `dlrm-embedding.${platform}.node`,
  platforms: PLATFORMS,
  thisPlatform: platformName(),
});
