import { statSync } from "node:fs";
import type { Bundle } from "./bundle.ts";
import { denseFlopsPerExample } from "./dense-network.ts";
import { denseNetworkTensors } from "./dense-weights.ts";

/** A description of a bundle for people. */
export function bundleSummary(bundle: Bundle): string {
  const { spec } = bundle;
  const { bottomMlp, crossLayers, crossProjection, topMlp } = spec.denseNetwork;
  const rows = spec.features.reduce((sum, { vocabularySize }) => sum + vocabularySize, 0);
  const reads = spec.features.reduce((sum, { hotSize }) => sum + hotSize, 0);
  const weights = denseNetworkTensors(spec).reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  const nameWidth = Math.max("feature".length, ...spec.features.map(({ name }) => name.length));
  const lines = [
    `${bundle.name}, version ${bundle.version}, seed ${bundle.seed}`,
    "",
    `tables         ${spec.features.length}, ${count(rows)} rows of ${spec.embeddingDim} float32, ${megabytes(rows * spec.embeddingDim * 4)}`,
    `row reads      ${reads} an example`,
    `dense features ${spec.denseFeatures}`,
    `bottom MLP     ${bottomMlp.join("-")}`,
    `cross layers   ${crossLayers}, projection ${crossProjection}`,
    `top MLP        ${topMlp.join("-")}`,
    `dense weights  ${count(weights)}, ${megabytes(weights * 4)}; ${(denseFlopsPerExample(spec) / 1e6).toFixed(1)} MFLOP an example`,
    `buckets        ${bundle.buckets.join(" ")}`,
    "",
    `${"feature".padEnd(nameWidth)}  ${"vocabulary".padStart(12)}  ${"hot size".padStart(8)}`,
    ...spec.features.map(
      ({ name, vocabularySize, hotSize }) =>
        `${name.padEnd(nameWidth)}  ${count(vocabularySize).padStart(12)}  ${count(hotSize).padStart(8)}`,
    ),
    "",
    ...Object.values(bundle.paths).map((file) => `${megabytes(statSync(file).size).padStart(12)}  ${file}`),
  ];
  return `${lines.join("\n")}\n`;
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toLocaleString("en-US", { maximumFractionDigits: 1 })} MB`;
}
