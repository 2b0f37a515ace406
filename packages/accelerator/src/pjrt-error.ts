import { AcceleratorError, type AcceleratorErrorCode } from "./errors.ts";
import { loadPjrtNative, type PjrtNative } from "./pjrt-native.ts";

/** The binding. Throws `not_installed` with what was tried. */
export function requirePjrtNative(): PjrtNative {
  const result = loadPjrtNative();
  if ("binding" in result) return result.binding;
  throw new AcceleratorError(
    "not_installed",
    `the "pjrt" device needs its native binding, and there is none for this machine (${result.whyNot}); in a checkout, ` +
      "`node native/build.mts --required` builds it",
    { cause: result.causes[0] },
  );
}

/** An error of the binding as ours: `code` unless the binding's own code says more. */
export function fromPjrtError(error: unknown, code: AcceleratorErrorCode, what: string): AcceleratorError {
  switch (error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined) {
    case "plugin_not_found":
      return AcceleratorError.from(error, "plugin_not_found", what);
    case "plugin_invalid":
      return AcceleratorError.from(error, "plugin_invalid", what);
    case "resource_exhausted":
      return AcceleratorError.from(error, "out_of_memory", what);
    default:
      return AcceleratorError.from(error, code, what);
  }
}
