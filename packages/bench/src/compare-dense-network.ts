import {
  allocateTensor,
  compareDevices,
  type ComparedDevice,
  type Device,
  type SharedFloat32Array,
} from "@dlrm/accelerator";
import { openReference, readBundle, type Bundle } from "@dlrm/model";
import type { DenseNetworkRow } from "@dlrm/reporter";
import { messageOf } from "./bench-error.ts";
import { type Candidate, denseNetworkCandidates } from "./dense-network-devices.ts";
import type { DenseNetworkTask } from "./dense-network-task.ts";
import { SeededRandom } from "./seeded-random.ts";

/** A turn is at least so many calls, and goes on for as long where the network is small. */
const MIN_CALLS = 4;
const TURN_MICROS = 200_000;

/**
 * Runs the same batches on every device in turn; a device that cannot be opened has a row that says why. PJRT's plugins
 * stay in the process that this runs in until it ends.
 */
export async function compareDenseNetwork(
  task: DenseNetworkTask,
  tell: (doing: string) => void,
): Promise<DenseNetworkRow[]> {
  const bundle = await readBundle(task.bundleDir);
  const attempts: { candidate: Candidate; opened: Device | string }[] = [];
  const isOpen = (opened: Device | string): opened is Device => typeof opened !== "string";
  try {
    for (const candidate of await denseNetworkCandidates(bundle, task)) {
      tell(`opening ${candidate.title}, ${candidate.precision}`);
      attempts.push({ candidate, opened: await openOnCpu(candidate) });
    }
    tell("scores of the reference");
    const { scores, ...inputs } = await makeExamples(bundle, task);
    tell("devices take turns");
    const devices = attempts.map(({ opened }) => opened).filter(isOpen);
    const common = { bucket: task.batch, inputs, expected: { scores } };
    const first = await compareDevices(devices, { ...common, rounds: 1, calls: 1 });
    const calls = callsOfTurn(first.flatMap(({ micros }) => micros));
    const compared = await compareDevices(devices, { ...common, rounds: task.rounds, calls });
    return attempts.map(({ candidate, opened }) =>
      denseNetworkRow(task, candidate, isOpen(opened) ? compared[devices.indexOf(opened)]! : opened),
    );
  } finally {
    for (const { opened } of attempts) if (isOpen(opened)) await opened.close();
  }
}

/** As many for each device as the slowest makes in the time of a turn. @param callMicros of the devices. */
export function callsOfTurn(callMicros: readonly number[]): number {
  return Math.max(MIN_CALLS, Math.ceil(TURN_MICROS / Math.max(1, ...callMicros)));
}

/** The device, or why there is none. */
async function openOnCpu({ open }: Candidate): Promise<Device | string> {
  try {
    const device = await open();
    if (device.platform === "cpu") return device;
    await device.close();
    return `it runs on ${device.platform}, not on this CPU`;
  } catch (error) {
    return messageOf(error);
  }
}

interface Examples {
  readonly dense: SharedFloat32Array;
  readonly pooled: SharedFloat32Array;
  /** Of the reference. */
  readonly scores: Float64Array;
}

async function makeExamples(bundle: Bundle, { batch, seed }: DenseNetworkTask): Promise<Examples> {
  const { denseFeatures, features, embeddingDim } = bundle.spec;
  const random = new SeededRandom(seed);
  const dense = allocateTensor(batch * denseFeatures);
  const pooled = allocateTensor(batch * features.length * embeddingDim);
  for (let at = 0; at < dense.length; at++) dense[at] = random.signed();
  for (let at = 0; at < pooled.length; at++) pooled[at] = random.signed() / 2;
  const reference = await openReference(bundle);
  try {
    return { dense, pooled, scores: await reference.scorePooled({ batch, dense, pooled }, "network") };
  } finally {
    await reference.close();
  }
}

/** @param found what was measured, or why nothing was. */
export function denseNetworkRow(
  { batch, numThreads }: Pick<DenseNetworkTask, "batch" | "numThreads">,
  { title, precision }: Pick<Candidate, "title" | "precision">,
  found: ComparedDevice | string,
): DenseNetworkRow {
  const head = { precision, batch, numThreads };
  const nothing = { examplesPerS: null, maxAbsError: null, callMicros: [] };
  if (typeof found === "string") return { device: title, ...head, ...nothing, whyNot: found };
  const { name: device, examplesPerSecond: examplesPerS, maxAbsError, micros: callMicros } = found;
  // What scores wrongly is no match for what scores rightly, however fast it is.
  if (maxAbsError === undefined || Number.isNaN(maxAbsError)) {
    return { device, ...head, ...nothing, whyNot: "its scores are not all numbers" };
  }
  return { device, ...head, examplesPerS, maxAbsError, callMicros };
}
