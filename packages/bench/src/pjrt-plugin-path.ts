/** The PJRT plugin that `PJRT_PLUGIN_PATH` names; undefined where it is not set, or empty. */
export function environmentPluginPath(): string | undefined {
  const named = process.env["PJRT_PLUGIN_PATH"];
  return named === "" ? undefined : named;
}
