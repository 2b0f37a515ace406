import type { ModelSpec } from "@dlrm/model";
import type { BenchDependencies } from "./bench-dependencies.ts";
import { ParityCheck, type Reference } from "./parity-check.ts";
import type { BenchSettings } from "./settings.ts";

/** The model that the arms serve, and what their scores are compared with. */
export interface BenchModel {
  readonly spec: ModelSpec;
  readonly reference: Reference;
  readonly parity: ParityCheck;
}

/** Makes the bundle if it isn't there yet, and opens its reference, which the caller closes. */
export async function prepareModel(
  settings: BenchSettings,
  { prepareBundle, openReference, progress, signal }: BenchDependencies,
): Promise<BenchModel> {
  const bundle = await prepareBundle(settings, progress, signal);
  const reference = await openReference(bundle);
  const { spec } = bundle;
  const simulated = settings.platform === "sim";
  return { spec, reference, parity: new ParityCheck({ spec, reference, simulated, seed: settings.seed }) };
}
