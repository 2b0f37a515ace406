import { readdir } from "node:fs/promises";
import { isMissing, openBundle, type Bundle } from "./bundle.ts";
import { ModelError } from "./model-error.ts";
import { sampleProblems } from "./table-sample.ts";
import { contentProblems } from "./verify-bundle.ts";
import type { BundleContent } from "./write-bundle-files.ts";

/** Larger files than this are not hashed when a bundle is reused. */
const HASH_UP_TO_BYTES = 128 << 20;

/**
 * The bundle at `dir` if it holds what an export of `content` would write there; undefined if there is nothing, or only an
 * empty directory.
 * @throws {ModelError} `bundle_exists` if there is something else.
 */
export async function reusableBundle(dir: string, content: BundleContent): Promise<Bundle | undefined> {
  try {
    if ((await readdir(dir)).length === 0) return undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const opened = await openBundle(dir);
    const different = (["version", "seed", "buckets", "spec"] as const).filter(
      (field) => JSON.stringify(opened.bundle[field]) !== JSON.stringify(content[field]),
    );
    if (different.length > 0) throw new ModelError("invalid_bundle", `another ${different.join(", ")}`);
    const problems = await contentProblems(opened, { hashUpToBytes: HASH_UP_TO_BYTES });
    if (problems.length === 0) problems.push(...(await sampleProblems(opened.bundle)));
    if (problems.length > 0) throw new ModelError("corrupt_bundle", problems.join("; "));
    return opened.bundle;
  } catch (cause) {
    if (!(cause instanceof ModelError)) throw cause;
    throw new ModelError("bundle_exists", `${dir} exists already and is not this bundle (${cause.message})`, { cause });
  }
}
