import { fileURLToPath } from "node:url";
import type { DeviceName, ServerOptions } from "./server-options.ts";

/** Options of `dlrm-serve` that a parent process gives it. */
export type ServeCommandOptions = Pick<
  ServerOptions,
  | "bundle"
  | "host"
  | "port"
  | "frontends"
  | "deviceThreads"
  | "devicePrecision"
  | "simulatedFixedMicros"
  | "simulatedMicrosPerExample"
  | "batching"
  | "maxBatchSize"
  | "batchTimeoutMicros"
  | "maxInFlightBatches"
  | "maxEnqueuedExamples"
  | "maxEnqueuedBytes"
  | "maxExamplesPerRequest"
  | "maxMessageBytes"
  | "maxBufferedBytes"
  | "drainTimeoutMs"
> & { readonly device?: DeviceName | undefined };

/** A process to start, without a shell. */
export interface ServeCommandLine {
  readonly file: string;
  readonly args: readonly string[];
}

const runsFromSource = import.meta.url.endsWith(".ts");

/** How to start `dlrm-serve` as a child of this process: with the Node that runs this one, and this copy of the package. */
export function serveCommandLine(options: ServeCommandOptions): ServeCommandLine {
  const cli = fileURLToPath(new URL(runsFromSource ? "./cli.ts" : "./cli.js", import.meta.url));
  const flags = Object.entries(options).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [`--${name.replaceAll(/[A-Z]/gu, (letter) => `-${letter.toLowerCase()}`)}`, String(value)],
  );
  // Sources find the other packages' sources by this condition; built code does not need it.
  return { file: process.execPath, args: [...(runsFromSource ? ["--conditions=@dlrm/source"] : []), cli, ...flags] };
}
