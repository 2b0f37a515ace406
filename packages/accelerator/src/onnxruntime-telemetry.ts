/**
 * Turns onnxruntime's own telemetry off for this process, unless `ORT_DISABLE_TELEMETRY` is set to something already. Where it
 * is on (its builds for Linux and macOS from 1.30 on), a session keeps a device's id and a database in the user's cache folder,
 * leaves a file in the folder for temporary files, and uploads events.
 *
 * Only what the process's first thread sets reaches native code: a worker's `process.env` is a copy.
 */
export function turnOnnxRuntimeTelemetryOff(): void {
  process.env["ORT_DISABLE_TELEMETRY"] ??= "1";
}
