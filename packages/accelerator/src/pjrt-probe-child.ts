import { requirePjrtNative } from "./pjrt-error.ts";
import { readOptions, type ProbeAnswer } from "./pjrt-probe.ts";

// Finds the device of the plugin named by the arguments, says what it is, and ends: all that may block or crash happens here.

function answer(): ProbeAnswer {
  const [, , pluginPath = "", options = "{}"] = process.argv;
  try {
    const native = requirePjrtNative();
    // Variables of the plugin are in this process's environment already.
    const client = native.openClient(pluginPath, readOptions(options), {});
    const description = native.describeClient(client);
    native.free(client);
    return { description };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { error: { code, message } };
  }
}

process.send?.(answer(), () => process.disconnect());
