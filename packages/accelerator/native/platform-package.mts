/**
 * What is published beside `@dlrm/accelerator`: one package a platform, which holds the PJRT binding.
 * `node native/platform-package.mts make DIR | require PACKAGE_JSON`; see `tools/platform-package.mts`.
 */
import path from "node:path";
import { platformPackage } from "../../../tools/platform-package.mts";
import { PLATFORMS, platformName } from "../src/pjrt-native.ts";

platformPackage({
  packageDir: path.resolve(import.meta.dirname, ".."),
  what: "PJRT binding",
  library: (platform) => `dlrm-pjrt.${platform}.node`,
  platforms: PLATFORMS,
  thisPlatform: platformName(),
});
