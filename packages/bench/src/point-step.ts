import type { ModelSpec } from "@dlrm/model";
import type { PointKey } from "@dlrm/reporter";
import type { Findings } from "./findings.ts";
import { loadPoint } from "./load-point.ts";
import { describeLoad, type LoadStep, pointName } from "./plan.ts";
import { repeatOf } from "./point-repeat.ts";
import type { RunContext } from "./run-context.ts";

/** Measures one repeat of a point with the server that runs, and keeps what came of it; a rate without a peak is left out. */
export async function measurePoint(context: RunContext, spec: ModelSpec, step: LoadStep): Promise<void> {
  const { settings, dependencies, record, servers, guard } = context;
  const { machine, measure, progress, signal } = dependencies;
  const { results, findings } = record;
  const { started } = servers.current();
  const { arm } = step;
  const key = pointKey(findings, step);
  if (key === undefined) {
    const warning = `no ${describeLoad(step.load)} at B_req ${step.bReq}: no closed-loop point without errors to take the rate from`;
    progress.note(`  ${warning}`);
    findings.warn(arm, warning);
    return;
  }
  const startedAt = new Date().toISOString();
  const logFile = results.path(arm, `loadgen-r${step.repeat}.log`);
  const point = { key, step, started, settings, machine, spec, measure, guard, progress, logFile, signal };
  const measurement = await loadPoint(point);
  const name = `${pointName(step)}-r${step.repeat}`;
  const { load, server, client, strays } = measurement;
  const head = { ...key, repeat: step.repeat };
  results.writeJson({ ...head, startedAt, result: load }, arm, `${name}.json`);
  results.writeJson({ ...head, server, client }, arm, `${name}.monitor.json`);
  if (strays[0] !== undefined) findings.warn(arm, `the load generator was not pinned: ${strays[0]}`);
  findings.addRepeat(key, repeatOf(step.repeat, measurement, key.mode));
}

/** Undefined for a share of a peak that was not measured. */
function pointKey(findings: Findings, { arm, bReq, load }: LoadStep): PointKey | undefined {
  if (load.mode === "closed") return { arm, bReq, mode: "closed", concurrency: load.concurrency, offeredRps: null };
  const { peakFraction } = load;
  const offeredRps = findings.offeredRps(arm, bReq, peakFraction);
  return offeredRps === undefined
    ? undefined
    : { arm, bReq, mode: "open", concurrency: null, offeredRps, peakFraction };
}
