import { parseArgs } from "./arguments.ts";
import { LoadError, messageOf } from "./load-error.ts";
import type { LoadResult } from "./load-result.ts";
import { fetchServerModel } from "./model-metadata.ts";
import { checkOutputFile, writeOutputFile } from "./output-file.ts";
import { formatMs, formatProgress } from "./progress-line.ts";
import { largestExamples } from "./request-size.ts";
import { runLoad } from "./run-load.ts";
import type { ScenarioOutcome } from "./scenario.ts";

/** Exit code after Ctrl-C, as a shell would give it. */
export const INTERRUPTED = 130;

/**
 * The `dlrm-loadgen` command. Returns its exit code: 0 after a valid run, 1 when the run failed, its verdict is INVALID or its
 * scenario is not passed, 2 for wrong usage, 130 after Ctrl-C.
 */
export async function runCommand(argv: readonly string[]): Promise<number> {
  const args = parseArgs(argv);
  if (args.kind === "over") return args.exitCode;
  const abort = new AbortController();
  const interrupt = (): void => abort.abort();
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  const line = new StatusLine();
  try {
    const { options, output } = args;
    if (output !== undefined) checkOutputFile(output);
    if (args.shape === undefined) line.show(`asking ${options.host}:${options.port} for its model`);
    const server =
      args.shape === undefined ? await Promise.race([fetchServerModel(options), whenAborted(abort.signal)]) : undefined;
    const most = server?.maxExamplesPerRequest;
    const largest = largestExamples(options.requestSize);
    if (most !== undefined && largest > most) {
      throw new LoadError(
        "invalid_options",
        `requests of ${largest} examples are above the server's limit of ${most} (--request-size, --scenario)`,
      );
    }
    line.show("making requests and connections");
    const result = await runLoad({
      ...options,
      shape: args.shape ?? server!.shape,
      idType: options.idType ?? server?.idType ?? "int32",
      onProgress: (progress) => line.show(formatProgress(progress)),
      signal: abort.signal,
    });
    line.clear();
    console.error(describeResult(result));
    const json = `${JSON.stringify(result, null, 2)}\n`;
    if (output === undefined) process.stdout.write(json);
    else if (!writeOutputFile(output, json)) return 1;
    return result.verdict.valid && result.scenario?.passed !== false ? 0 : 1;
  } catch (error) {
    line.clear();
    if (error instanceof LoadError && error.code === "aborted") {
      console.error("dlrm-loadgen: interrupted");
      return INTERRUPTED;
    }
    console.error(`dlrm-loadgen: ${messageOf(error)}`);
    return error instanceof LoadError && error.code === "invalid_options" ? 2 : 1;
  } finally {
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
  }
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new LoadError("aborted", "interrupted")));
  });
}

/** A line on stderr that is rewritten on a terminal, and printed as a new line elsewhere. */
class StatusLine {
  #shown = false;

  show(text: string): void {
    if (process.stderr.isTTY) process.stderr.write(`\r\u{1b}[2K${text}`);
    else process.stderr.write(`${text}\n`);
    this.#shown = true;
  }

  clear(): void {
    if (this.#shown && process.stderr.isTTY) process.stderr.write("\r\u{1b}[2K");
    this.#shown = false;
  }
}

/** What a person wants to know of a result, a few lines. */
export function describeResult(result: LoadResult): string {
  const { latency, latencyFromSend, settings } = result;
  const open = settings.mode.kind === "open";
  const load =
    settings.mode.kind === "open"
      ? `open loop, ${settings.mode.offeredRps} req/s`
      : `closed loop, C ${settings.mode.concurrency}`;
  const percentiles = (of: typeof latency): string =>
    `p50 ${formatMs(of.p50Ms)}  p90 ${formatMs(of.p90Ms)}  p99 ${formatMs(of.p99Ms)}  p99.9 ${formatMs(of.p999Ms)}  max ${formatMs(of.maxMs)}`;
  const failed = Object.entries(result.errors).map(([name, count]) => `${name} ${count}`);
  const lines = [
    `${load}, ${settings.requestSize === "mlperf" ? "100 to 700" : settings.requestSize} examples a request, ${result.connections} connections, ${result.processes} processes`,
    `throughput  ${result.requestsPerS.toFixed(1)} req/s  ${result.examplesPerS.toFixed(1)} examples/s over ${result.elapsedS} s`,
    `latency     ${percentiles(latency)}`,
  ];
  if (open) {
    lines.push(
      `from send   ${percentiles(latencyFromSend)}`,
      `sends       ${result.intended} due, ${result.late} late, ${result.dropped} dropped; lag p99 ${formatMs(result.sendLag.p99Ms)}, max ${formatMs(result.sendLag.maxMs)}`,
    );
  }
  const perRequest =
    result.requests === 0 ? "" : `, ${(result.clientCpuMicros / result.requests).toFixed(1)} µs a request`;
  lines.push(
    `errors      ${failed.length === 0 ? "none" : failed.join(", ")}${result.errorSample === undefined ? "" : ` (first: ${result.errorSample})`}`,
    `client      ${(result.clientCpuFraction * 100).toFixed(0)} % of its CPU${perRequest}; CPUs ${result.cpus ?? "unknown"}${result.pinned ? " (held to them)" : ""}`,
    result.notPinnedReason === undefined ? "" : `            ${result.notPinnedReason}`,
    `pool        ${result.poolRequests} requests, ${(result.poolBytes / 2 ** 20).toFixed(1)} MiB, cycled through`,
    result.verdict.valid ? "verdict     VALID" : `verdict     INVALID: ${result.verdict.reasons.join("; ")}`,
  );
  if (result.scenario !== undefined) lines.push(describeScenario(result.scenario));
  return lines.filter((text) => text !== "").join("\n");
}

function describeScenario({ name, p99Ms, p99BoundMs, samplesPerS, passed, reason }: ScenarioOutcome): string {
  const figures = `${samplesPerS.toFixed(1)} samples/s at p99 ${formatMs(p99Ms)} (bound ${p99BoundMs} ms)`;
  return `scenario    ${name}: ${passed ? "PASSED" : "NOT PASSED"}, ${figures}${reason === undefined ? "" : `: ${reason}`}`;
}
